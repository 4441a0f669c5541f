"""What the model really sees, for a person's eyes: samples, the strangest rows, lengths, packs; never a sealed row.

Reading order: `material` (what is looked at), `choosing` (which rows), `letters` (a token's text made visible),
`seeing` (rows and packs read off their tensors), `lengths`, `strange` (losses under the base, by `worker`), `sights`
and `page` (all of it as one offline file, with `boxes` and `pictures`), `confirming` (what a person confirms before the
first run). `wording` has the fixed texts.
"""
