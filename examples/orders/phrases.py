"""The words of the example: products, cities, and the sentences of four languages.

A sentence may hold `{item}` (quantity, unit and product), `{q}` and `{old}` (quantities), `{city}` and `{city2}`,
`{other}` (a product that is not ordered), `{n}` (a number that means nothing here), `{phone}` and `{name}`.
"""

from __future__ import annotations


def _list(text: str) -> list[str]:
    return text.split("|")


CITIES = {
    "en": _list("Bristol|Leeds|Cardiff|Dublin|Glasgow|Norwich|York|Bath|Oxford|Belfast|Exeter|Galway|Derby|Hull"),
    "es": _list("Bilbao|Sevilla|Málaga|Vigo|León|Toledo|Córdoba|Murcia|Gijón|Cádiz|Lima|Bogotá|Quito|Rosario"),
    "pt": _list("Porto|Braga|Évora|Faro|Coimbra|Lisboa|Aveiro|Setúbal|Recife|Santos|Curitiba|Natal|Leiria|Olinda"),
    "fr": _list("Lyon|Nantes|Lille|Rennes|Dijon|Angers|Tours|Nancy|Metz|Reims|Brest|Grenoble|Namur|Genève"),
}

# Domain -> language -> (heads by unit, attributes). A product is a head and, mostly, an attribute.
# Units: c counted (piece, box, pack), k by the kilo, b by the bottle.
PRODUCTS: dict[str, dict[str, tuple[dict[str, list[str]], list[str]]]] = {
    "hardware": {
        "en": (
            {
                "c": _list(
                    "hex bolts|wood screws|wall plugs|hinges|drill bits|cable ties|washers|padlocks|"
                    "door handles|paint rollers|sanding discs|wing nuts"
                ),
                "b": _list("wood glue|thread oil|white spirit"),
            },
            _list("8 mm|M6|M10|in brass|in stainless steel|30 mm|galvanised|black|heavy duty|type B"),
        ),
        "es": (
            {
                "c": _list(
                    "tornillos|tacos de pared|bisagras|brocas|bridas|arandelas|candados|rodillos de pintura|"
                    "tuercas|discos de lija|alcayatas|remaches"
                ),
                "b": _list("cola blanca|aceite de corte|aguarrás"),
            },
            _list("de 8 mm|M6|M10|de latón|de acero inoxidable|de 30 mm|serie pesada|color negro|tipo B|de zinc"),
        ),
        "pt": (
            {
                "c": _list(
                    "parafusos|buchas|dobradiças|brocas|abraçadeiras|anilhas|cadeados|rolos de pintura|"
                    "porcas|discos de lixa|rebites|puxadores"
                ),
                "b": _list("cola branca|óleo de corte|diluente"),
            },
            _list("de 8 mm|M6|M10|de latão|de aço inoxidável|de 30 mm|cor preta|tipo B|de zinco|reforço duplo"),
        ),
        "fr": (
            {
                "c": _list(
                    "vis à bois|chevilles|charnières|forets|colliers|rondelles|cadenas|rouleaux|boulons|"
                    "disques abrasifs|rivets|poignées"
                ),
                "b": _list("colle à bois|huile de coupe|white-spirit"),
            },
            _list("de 8 mm|M6|M10|en laiton|en inox|de 30 mm|série lourde|coloris noir|type B|en zinc"),
        ),
    },
    "food": {
        "en": (
            {
                "k": _list("brown rice|chickpeas|wheat flour|red lentils|ground coffee|almonds|sea salt|oat flakes"),
                "b": _list("olive oil|apple juice|cider vinegar|tomato sauce|soy sauce"),
                "c": _list("rye crackers|honey jars|tuna tins|corn tortillas"),
            },
            _list("organic|extra fine|unsalted|from Kenya|grade A|family size|smoked|fair trade"),
        ),
        "es": (
            {
                "k": _list("arroz integral|garbanzos|harina de trigo|lentejas|café molido|almendras|sal gruesa|avena"),
                "b": _list("aceite de oliva|zumo de manzana|vinagre de jerez|salsa de tomate|sirope"),
                "c": _list("galletas de centeno|tarros de miel|latas de atún|tortillas de maíz"),
            },
            _list("sin sal|de cultivo ecológico|de Perú|categoría A|tamaño familiar|sin gluten|de la huerta"),
        ),
        "pt": (
            {
                "k": _list(
                    "arroz integral|grão-de-bico|farinha de trigo|lentilhas|café moído|amêndoas|sal grosso|aveia"
                ),
                "b": _list("azeite virgem|sumo de maçã|vinagre de vinho|molho de tomate|xarope"),
                "c": _list("bolachas de centeio|frascos de mel|latas de atum|tortilhas de milho"),
            },
            _list("sem sal|de agricultura biológica|do Brasil|categoria A|tamanho familiar|sem glúten|da serra"),
        ),
        "fr": (
            {
                "k": _list(
                    "riz complet|pois chiches|farine de blé|lentilles|café moulu|amandes|gros sel|flocons d'avoine"
                ),
                "b": _list("huile d'olive|jus de pomme|vinaigre de cidre|sauce tomate|sirop d'érable"),
                "c": _list("biscuits au seigle|pots de miel|boîtes de thon|galettes de maïs"),
            },
            _list("sans sel|issus du bio|du Pérou|catégorie A|format familial|sans gluten|de montagne"),
        ),
    },
    "stationery": {
        "en": (
            {
                "c": _list(
                    "notebooks|ring binders|gel pens|envelopes|staplers|desk pads|index cards|highlighters|"
                    "glue sticks|wall planners|rulers|erasers"
                ),
            },
            _list("A4|A5|squared|in blue|in green|ruled|recycled|with window|extra strong|no. 3"),
        ),
        "es": (
            {
                "c": _list(
                    "cuadernos|archivadores|bolígrafos|sobres|grapadoras|carpetas|fichas|marcadores|"
                    "pegamentos|agendas|reglas|gomas de borrar"
                ),
            },
            _list("A4|A5|de cuadros|color azul|color verde|de papel reciclado|con ventana|n.º 3|de tapa dura"),
        ),
        "pt": (
            {
                "c": _list(
                    "cadernos|arquivadores|canetas|envelopes|agrafadores|pastas|fichas|marcadores|colas|"
                    "agendas|réguas|borrachas"
                ),
            },
            _list("A4|A5|de quadrícula|cor azul|cor verde|de papel reciclado|com janela|n.º 3|de capa dura"),
        ),
        "fr": (
            {
                "c": _list(
                    "cahiers|classeurs|stylos|enveloppes|agrafeuses|chemises|fiches|surligneurs|"
                    "bâtons de colle|agendas|règles|gommes"
                ),
            },
            _list("A4|A5|à carreaux|coloris bleu|coloris vert|en papier recyclé|à fenêtre|n° 3|à spirale"),
        ),
    },
    "clothing": {
        "en": (
            {
                "c": _list(
                    "aprons|work gloves|polo shirts|rain jackets|wool socks|scarves|safety vests|caps|"
                    "chef hats|fleece jumpers|overalls|belts"
                ),
            },
            _list("size M|size XL|in navy|in cotton|in grey|for children|with logo|long sleeve|waterproof"),
        ),
        "es": (
            {
                "c": _list(
                    "delantales|guantes|camisas|chubasqueros|calcetines|bufandas|chalecos|gorras|polos|"
                    "sudaderas|monos de trabajo|cinturones"
                ),
            },
            _list("talla M|talla XL|azul marino|de algodón|de lana|para niños|con logo|de manga larga|de lino"),
        ),
        "pt": (
            {
                "c": _list(
                    "aventais|luvas|camisas|impermeáveis|meias|cachecóis|coletes|bonés|polos|camisolas|macacões|cintos"
                ),
            },
            _list(
                "tamanho M|tamanho XL|azul-marinho|de algodão|de lã|para criança|com logótipo|"
                "de manga comprida|de linho"
            ),
        ),
        "fr": (
            {
                "c": _list(
                    "tabliers|gants|chemises|coupe-vent|chaussettes|écharpes|gilets|casquettes|polos|sweats|"
                    "combinaisons|ceintures"
                ),
            },
            _list("taille M|taille XL|bleu marine|en coton|en laine|pour enfant|avec logo|à manches longues|en lin"),
        ),
    },
    "lab": {
        "en": (
            {
                "c": _list(
                    "pipette tips|test tubes|petri dishes|nitrile gloves|filter papers|cuvettes|glass slides|"
                    "beakers|syringes|cryo vials"
                ),
                "b": _list("ethanol 96%|acetone|saline buffer|agar medium|hydrogen peroxide"),
            },
            _list("200 µl|50 ml|sterile|10 ml|powder free|with cap|graduated|class B|type II"),
        ),
        "es": (
            {
                "c": _list(
                    "puntas de pipeta|tubos de ensayo|placas de Petri|guantes de nitrilo|papeles de filtro|"
                    "cubetas|portaobjetos|vasos de vidrio|jeringas|crioviales"
                ),
                "b": _list("etanol 96%|acetona|solución salina|medio de agar|agua oxigenada"),
            },
            _list("de 200 µl|de 50 ml|de un solo uso|de 10 ml|sin polvo|con tapa|clase B|tipo II"),
        ),
        "pt": (
            {
                "c": _list(
                    "pontas de pipeta|tubos de ensaio|placas de Petri|luvas de nitrilo|papéis de filtro|"
                    "cuvetes|lâminas|copos de vidro|seringas|criotubos"
                ),
                "b": _list("etanol 96%|acetona|solução salina|meio de ágar|água oxigenada"),
            },
            _list("de 200 µl|de 50 ml|de uso único|de 10 ml|sem pó|com tampa|classe B|tipo II"),
        ),
        "fr": (
            {
                "c": _list(
                    "pointes de pipette|tubes à essai|boîtes de Petri|gants en nitrile|papiers filtres|"
                    "cuvettes|lames|béchers|seringues|cryotubes"
                ),
                "b": _list("éthanol 96%|acétone|solution saline|milieu agar|eau oxygénée"),
            },
            _list("de 200 µl|de 50 ml|à usage unique|de 10 ml|sans poudre|avec bouchon|classe B|type II"),
        ),
    },
}

# Titles of the domain "books": one of the first list, one of the second.
TITLES = {
    "en": (
        _list(
            "The Glass|A Quiet|The Last|Beyond the|Letters from the|The Other|Seven Days in the|The Salt|"
            "Under the|My First"
        ),
        _list("Orchard|Harbour|Winter|Atlas|Garden|Clockmaker|Island|Library|River|Kitchen|Physics Book|Lighthouse"),
    ),
    "es": (
        _list(
            "La casa de|Cartas desde|El último verano en|Historia de|Viaje a|Sombras de|La cocina de|"
            "Atlas de|El jardín de"
        ),
        _list(
            "Praga|los Andes|las mareas|la sal|Samarcanda|los relojes|la abuela|las aves|invierno|cristal|ninguna parte"
        ),
    ),
    "pt": (
        _list(
            "A casa de|Cartas de|O último verão em|História de|Viagem a|Sombras de|A cozinha de|Atlas de|O jardim de"
        ),
        _list("Praga|Macau|marés|sal|Samarcanda|relógios|Amália|aves|inverno|cristal|lugar nenhum"),
    ),
    "fr": (
        _list(
            "La maison de|Lettres de|Le dernier été à|Histoire de|Voyage à|Ombres de|La cuisine de|Atlas de|"
            "Le jardin de"
        ),
        _list("Prague|Macao|sel|Samarcande|verre|Camille|mémoire|pluie|papier|nulle part|Bretagne"),
    ),
}

# Language -> unit of the target -> (one, many). Several ways of saying the same unit are normalised in the target.
UNITS = {
    "en": {
        "box": [("box of {p}", "boxes of {p}"), ("carton of {p}", "cartons of {p}")],
        "pack": [("pack of {p}", "packs of {p}"), ("packet of {p}", "packets of {p}")],
        "kg": [("kg of {p}", "kg of {p}"), ("kilo of {p}", "kilos of {p}")],
        "bottle": [("bottle of {p}", "bottles of {p}")],
        "piece": [("", "{p}"), ("", "pieces of {p}")],
        "copy": [("copy of {p}", "copies of {p}"), ("", "x {p}")],
    },
    "es": {
        "box": [("caja de {p}", "cajas de {p}")],
        "pack": [("paquete de {p}", "paquetes de {p}"), ("pack de {p}", "packs de {p}")],
        "kg": [("kg de {p}", "kg de {p}"), ("kilo de {p}", "kilos de {p}")],
        "bottle": [("botella de {p}", "botellas de {p}")],
        "piece": [("", "{p}"), ("", "unidades de {p}")],
        "copy": [("ejemplar de {p}", "ejemplares de {p}"), ("", "x {p}")],
    },
    "pt": {
        "box": [("caixa de {p}", "caixas de {p}")],
        "pack": [("pacote de {p}", "pacotes de {p}"), ("pack de {p}", "packs de {p}")],
        "kg": [("kg de {p}", "kg de {p}"), ("quilo de {p}", "quilos de {p}")],
        "bottle": [("garrafa de {p}", "garrafas de {p}")],
        "piece": [("", "{p}"), ("", "unidades de {p}")],
        "copy": [("exemplar de {p}", "exemplares de {p}"), ("", "x {p}")],
    },
    "fr": {
        "box": [("carton {de}{p}", "cartons {de}{p}"), ("boîte {de}{p}", "boîtes {de}{p}")],
        "pack": [("paquet {de}{p}", "paquets {de}{p}"), ("lot {de}{p}", "lots {de}{p}")],
        "kg": [("kg {de}{p}", "kg {de}{p}"), ("kilo {de}{p}", "kilos {de}{p}")],
        "bottle": [("bouteille {de}{p}", "bouteilles {de}{p}")],
        "piece": [("", "{p}"), ("", "pièces {de}{p}")],
        "copy": [("exemplaire de {p}", "exemplaires de {p}"), ("", "x {p}")],
    },
}

# Quantities in words, from two on; "one" depends on the gender and is always a figure.
NUMBERS = {
    "en": _list("two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"),
    "es": _list("dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|once|doce"),
    "pt": _list("dois|três|quatro|cinco|seis|sete|oito|nove|dez|onze|doze"),
    "fr": _list("deux|trois|quatre|cinq|six|sept|huit|neuf|dix|onze|douze"),
}

SENTENCES: dict[str, dict[str, list[str]]] = {
    "en": {
        "hello": _list(
            "Hello,|Hi,|Good morning,|Dear team,|Hi there,|Good afternoon.|Hey,|To the sales desk:|"
            "Hello again,|Dear Sir or Madam,"
        ),
        "order": _list(
            "Please send us {item}.|We need {item}.|Could you ship {item}?|I'd like to order {item}.|"
            "Our order: {item}.|Can we have {item}, please?|Put us down for {item}.|"
            "This week we'll take {item}.|Kindly supply {item}.|We are out of stock, so {item} please.|"
            "I want {item}.|Time to reorder: {item}.|Add {item} to our account.|"
            "Would you get {item} ready for us?"
        ),
        "order_city": _list(
            "Please ship {item} to {city}.|We need {item} at our {city} shop.|"
            "Our {city} branch wants {item}.|For {city}: {item}.|Could {item} go to {city}?|"
            "I'm ordering {item} for the {city} site.|{city} has asked for {item}.|"
            "Send {item} over to {city}, please."
        ),
        "fix": _list(
            "Not {old} but {item}, please.|I first wrote {old}; we need {item}.|"
            "Instead of {old}, send {item}.|Forget the {old} from yesterday: {item}.|"
            "Change of plan, {item} rather than {old}.|Make it {item}, {old} was a mistake.|"
            "Scrap the earlier {old}. We want {item}."
        ),
        "deliver": _list(
            "Deliver to {city}.|It goes to {city}.|Ship to our place in {city}.|Delivery address: {city}.|"
            "Please bring it to {city}.|Destination {city}.|We'll receive it in {city}.|"
            "The van should come to {city}.|Drop it off in {city}.|Send everything to {city}."
        ),
        "urgent": _list(
            "It's urgent.|We need it as soon as possible.|Please hurry.|This is a rush order.|Top priority.|"
            "The sooner the better, customers are waiting.|Express delivery, please.|It can't wait.|ASAP!"
        ),
        "no_hurry": _list(
            "No hurry.|Whenever it suits you.|Take your time.|There is no rush.|Any day is fine.|"
            "It can wait until your next round.|We're in no hurry at all."
        ),
        "noise": _list(
            "My number is {phone}.|The invoice goes to {city2}.|No {other} this time.|"
            "We still have plenty of {other}.|Last time we got {n}.|Your reference: {n}.|"
            "Call {phone} if unclear.|Don't send {other} again.|Our office in {city2} pays.|"
            "Nice meeting you in {city2}.|The {other} arrived fine.|Quote {n} applies.|Ring us on {phone}.|"
            "We've moved from {city2}."
        ),
        "close": _list(
            "Thanks, {name}|Regards, {name}|Best, {name}|{name}|Many thanks, {name}|Cheers, {name}|- {name}|"
            "Yours, {name}|Thank you!|Bye, {name}"
        ),
    },
    "es": {
        "hello": _list(
            "Hola,|Buenos días,|Buenas tardes.|Estimados,|Hola de nuevo:|Buenas,|Muy señores míos:|"
            "Hola, equipo.|A la atención de ventas:"
        ),
        "order": _list(
            "Queremos {item}.|Necesitamos {item}.|Mandadnos {item}.|¿Nos envían {item}?|"
            "Nuestro pedido: {item}.|Quisiera pedir {item}.|Por favor, {item}.|Esta semana serán {item}.|"
            "Apúntanos {item}.|Nos hacen falta {item}.|Pedimos {item}.|Reposición: {item}.|"
            "¿Me preparas {item}?"
        ),
        "order_city": _list(
            "Envíen {item} a {city}.|Para {city}: {item}.|La tienda de {city} pide {item}.|"
            "Necesitamos {item} en {city}.|Manda {item} a {city}.|Desde {city} piden {item}.|"
            "Quiero {item} para el local de {city}."
        ),
        "fix": _list(
            "No {old} sino {item}.|Antes puse {old}; son {item}.|En lugar de {old}, {item}.|"
            "Olvida los {old} de ayer: {item}.|Cambio: {item} y no {old}.|"
            "Me equivoqué con {old}, queremos {item}."
        ),
        "deliver": _list(
            "Entrega en {city}.|Va a {city}.|Enviar a {city}.|Lo recibimos en {city}.|Dirección: {city}.|"
            "Destino {city}.|Llévenlo a {city}.|Estamos en {city}.|Mandadlo todo a {city}."
        ),
        "urgent": _list(
            "Es urgente.|Lo antes posible.|Corre prisa.|¡Cuanto antes!|Máxima prioridad.|No puede esperar.|"
            "Envío exprés, por favor.|Nos urge mucho."
        ),
        "no_hurry": _list(
            "Sin prisa.|Cuando puedan.|No corre prisa.|Cualquier día vale.|No hay apuro.|Puede esperar.|"
            "Tómense su tiempo."
        ),
        "noise": _list(
            "Mi teléfono es {phone}.|La factura va a {city2}.|Esta vez {other} no.|Nos quedan {other}.|"
            "La otra vez fueron {n}.|Referencia {n}.|Dudas: {phone}.|No mandéis {other}.|"
            "Paga la oficina de {city2}.|Nos vimos en {city2}.|Los {other} llegaron bien.|Presupuesto {n}.|"
            "Ya no estamos en {city2}."
        ),
        "close": _list(
            "Gracias, {name}|Saludos, {name}|Un saludo, {name}|{name}|Atentamente, {name}|¡Gracias!|"
            "Adiós, {name}|Un abrazo, {name}"
        ),
    },
    "pt": {
        "hello": _list(
            "Olá,|Bom dia,|Boa tarde.|Caros senhores,|Viva,|Oi,|Olá outra vez:|Prezados,|Ao departamento comercial:"
        ),
        "order": _list(
            "Queremos {item}.|Precisamos de {item}.|Enviem-nos {item}.|Podem mandar {item}?|"
            "A nossa encomenda: {item}.|Queria pedir {item}.|Por favor, {item}.|Esta semana são {item}.|"
            "Anote {item}.|Faltam-nos {item}.|Pedimos {item}.|Reposição: {item}.|Gostaria de {item}."
        ),
        "order_city": _list(
            "Enviem {item} para {city}.|Para {city}: {item}.|A loja de {city} pede {item}.|"
            "Precisamos de {item} em {city}.|Mande {item} para {city}.|De {city} pedem {item}.|"
            "Quero {item} na filial de {city}."
        ),
        "fix": _list(
            "Não {old} mas {item}.|Antes escrevi {old}; são {item}.|Em vez de {old}, {item}.|"
            "Esqueça os {old} de ontem: {item}.|Mudança: {item} e não {old}.|"
            "Enganei-me com {old}, queremos {item}."
        ),
        "deliver": _list(
            "Entrega em {city}.|Vai para {city}.|Enviar para {city}.|Recebemos em {city}.|Morada: {city}.|"
            "Destino {city}.|Levem a {city}.|Estamos em {city}.|Mandem tudo para {city}."
        ),
        "urgent": _list(
            "É urgente.|O mais depressa possível.|Temos pressa.|Quanto antes!|Prioridade máxima.|"
            "Não pode esperar.|Envio expresso, por favor.|Estamos aflitos."
        ),
        "no_hurry": _list(
            "Sem pressa.|Quando puderem.|Não há pressa.|Qualquer dia serve.|Pode esperar.|Com calma.|"
            "Façam no vosso ritmo."
        ),
        "noise": _list(
            "O meu telefone é {phone}.|A fatura vai para {city2}.|Desta vez {other} não.|"
            "Ainda temos {other}.|Da outra vez foram {n}.|Referência {n}.|Dúvidas: {phone}.|"
            "Não mandem {other}.|Paga o escritório de {city2}.|Vimo-nos em {city2}.|Os {other} chegaram bem.|"
            "Orçamento {n}.|Já não estamos em {city2}."
        ),
        "close": _list(
            "Obrigado, {name}|Cumprimentos, {name}|Um abraço, {name}|{name}|Atenciosamente, {name}|Obrigada!|"
            "Até breve, {name}|Abraços, {name}"
        ),
    },
    "fr": {
        "hello": _list(
            "Bonjour,|Bonsoir,|Madame, Monsieur,|Salut,|Bonjour à tous.|Rebonjour,|Chers amis,|"
            "Au service des ventes :|Cher partenaire,"
        ),
        "order": _list(
            "Nous voulons {item}.|Il nous faut {item}.|Envoyez-nous {item}.|Pouvez-vous livrer {item} ?|"
            "Notre commande : {item}.|Je commande {item}.|S'il vous plaît, {item}.|Cette semaine, {item}.|"
            "Notez {item}.|Il manque {item}.|Nous prenons {item}.|À réassortir : {item}.|J'aimerais {item}."
        ),
        "order_city": _list(
            "Expédiez {item} à {city}.|Pour {city} : {item}.|Le magasin de {city} demande {item}.|"
            "Il faut {item} à {city}.|Envoyez {item} à {city}.|De {city}, on demande {item}.|"
            "Je voudrais {item} pour le site de {city}."
        ),
        "fix": _list(
            "Pas {old} mais {item}.|J'avais écrit {old} ; c'est {item}.|Au lieu de {old}, {item}.|"
            "Oubliez les {old} d'hier : {item}.|Changement : {item} et non {old}.|"
            "Erreur avec {old}, on veut {item}."
        ),
        "deliver": _list(
            "Livraison à {city}.|C'est pour {city}.|À envoyer à {city}.|Nous recevons à {city}.|"
            "Adresse : {city}.|Destination {city}.|Livrez à {city}.|Nous sommes à {city}.|"
            "Envoyez tout à {city}."
        ),
        "urgent": _list(
            "C'est urgent.|Dès que possible.|Vite, s'il vous plaît.|Au plus tôt !|Priorité absolue.|"
            "Cela ne peut pas attendre.|Livraison express.|Ça presse."
        ),
        "no_hurry": _list(
            "Rien ne presse.|Quand vous pourrez.|Prenez votre temps.|Peu importe le jour.|Sans urgence.|"
            "Cela peut attendre.|À votre rythme."
        ),
        "noise": _list(
            "Mon numéro est le {phone}.|La facture va à {city2}.|Pas de {other} cette fois.|"
            "Nous avons encore des {other}.|L'autre fois, c'était {n}.|Référence {n}.|Questions : {phone}.|"
            "N'envoyez plus de {other}.|Le bureau de {city2} paie.|On s'est vus à {city2}.|"
            "Les {other} sont bien arrivés.|Devis {n}.|Nous avons quitté {city2}."
        ),
        "close": _list(
            "Merci, {name}|Cordialement, {name}|Bien à vous, {name}|{name}|Amicalement, {name}|Merci !|"
            "À bientôt, {name}|Salutations, {name}"
        ),
    },
}

NAMES = {
    "en": (
        _list("Amara|Colin|Freya|Jude|Keira|Liam|Mabel|Nora|Owen|Priya|Rhys|Tess|Uma|Zack|Isla|Hugh"),
        _list("Abbott|Byrne|Clarke|Doyle|Evans|Farrow|Gill|Hayes|Okafor|Patel|Quinn|Reid|Shaw|Turner|Webb"),
    ),
    "es": (
        _list("Adela|Bruno|Carla|Diego|Elena|Félix|Gema|Hugo|Irene|Jaime|Lola|Mateo|Nuria|Óscar|Pilar|Raúl"),
        _list("Alonso|Bravo|Cano|Durán|Esteban|Flores|Gil|Herrera|Ibarra|León|Molina|Núñez|Ortiz|Prieto|Sáez"),
    ),
    "pt": (
        _list("Ana|Bento|Célia|Duarte|Eva|Filipe|Graça|Henrique|Inês|João|Lara|Miguel|Noémia|Otávio|Rita|Tomé"),
        _list("Abreu|Barros|Castro|Dias|Esteves|Faria|Gomes|Lopes|Matos|Neves|Pinto|Ramos|Sousa|Teles|Vaz"),
    ),
    "fr": (
        _list("Alice|Basile|Chloé|Denis|Élise|Fabien|Gaëlle|Hervé|Inès|Jules|Luce|Marc|Noé|Odile|Paul|Rémi"),
        _list("Aubert|Blanc|Caron|Dumas|Étienne|Fabre|Girard|Hamel|Lambert|Moreau|Noël|Perrin|Roy|Simon|Vidal"),
    ),
}
