"""The base at an exact revision, its adapter, precision, digests and export.

Reading order: `device` (the one place that talks to an accelerator), `base`, `adapter`, `bare`, `digest`,
`reproduction`, `export`, `control`; how rows go through a model: `layout` (which meet), `attention` (what sees what),
`prefix` (what all share), `streamed` and `losses`.
Names that need torch are imported from their modules, so that `testigo check` can find a base without loading it.
"""

from testigo.model.base import BaseFiles, BaseIdentity, locate

__all__ = ["BaseFiles", "BaseIdentity", "locate"]
