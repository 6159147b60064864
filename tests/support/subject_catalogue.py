"""A made-up library catalogue for the web page: readable abstracts, 42 subjects in English and German, odd names too.

Every subject has its words; an abstract mixes the words of one to three subjects, often of one field, and carries the
field as a further label now and then. Some labels are left out or wrong, as in real catalogues.
"""

import numpy as np

from tagwood import LabelVocab

# field -> subject -> (German name, words)
FIELDS = {
    "Agriculture": {
        "Beekeeping": ("Imkerei", "hives honey bees swarms nectar queens wax beekeepers"),
        "Forestry": ("Forstwirtschaft", "forests oaks timber felling saplings rangers clearings bark"),
        "Viticulture": ("Weinbau", "vines grapes cellars vintages vineyards barrels harvests rootstocks"),
        "Soil science": ("Bodenkunde", "soils humus clay earthworms compost minerals erosion loam"),
        "Dairy farming": ("Milchwirtschaft", "cows milk cheese pastures barns butter herds calves"),
        "Irrigation": ("Bewässerung", "canals sluices droughts pumps reservoirs furrows wells sprinklers"),
    },
    "Astronomy": {
        "Comets": ("Kometen", "comets tails orbits ices perihelia meteors showers nuclei"),
        "Telescopes": (
            "Teleskope",
            "telescopes mirrors lenses observatories eyepieces domes refractors apertures",
        ),
        "Planets": ("Planeten", "planets moons rings craters atmospheres rovers volcanoes eclipses"),
        "Stars": ("Sterne", "stars supernovae dwarfs spectra clusters constellations luminosity fusion"),
        "Calendars": ("Kalender", "calendars solstices months leap years almanacs feasts equinoxes"),
    },
    "Seafaring": {
        "Navigation": ("Navigation", "compasses charts sextants courses pilots beacons latitudes logbooks"),
        "Shipbuilding": ("Schiffbau", "hulls keels masts shipyards rigging planks rivets launches"),
        "Fisheries": ("Fischerei", "nets herring trawlers cod quotas catches fishermen harbours"),
        "Lighthouses": ("Leuchttürme", "lighthouses lamps keepers cliffs foghorns towers rocks signals"),
        "Tides": ("Gezeiten", "tides currents estuaries floods beaches marshes gauges moonlight"),
    },
    "Music": {
        "Organs": ("Orgeln", "organs pipes bellows registers chapels pedals organists hymns"),
        "Opera": ("Oper", "operas arias sopranos librettos stages overtures conductors costumes"),
        "Folk songs": ("Volkslieder", "ballads fiddles dances melodies villages refrains singers lullabies"),
        "Jazz": ("Jazz", "saxophones swing improvisation trumpets clubs rhythms drummers solos"),
        "Acoustics": ("Akustik", "sound echoes frequencies vibrations resonance microphones halls noise"),
    },
    "Medicine": {
        "Nursing": ("Krankenpflege", "nurses wards patients bandages hospitals shifts care recovery"),
        "Surgery": (
            "Chirurgie",
            "surgeons scalpels sutures anaesthesia operations wounds transplants theatres",
        ),
        "Vaccination": ("Impfung", "vaccines doses immunity outbreaks measles boosters trials epidemics"),
        "Pharmacy": ("Pharmazie", "drugs tablets pharmacists prescriptions herbs remedies dosages ointments"),
        "Nutrition": ("Ernährung", "diets vitamins meals proteins calories vegetables fasting kitchens"),
    },
    "Economics": {
        "Banking": ("Bankwesen", "banks loans deposits interest branches credit bankers savings"),
        "Trade": ("Außenhandel", "merchants tariffs exports ports markets treaties cargo caravans"),
        "Taxation": ("Besteuerung", "taxes revenue levies budgets incomes exemptions treasuries duties"),
        "Labour": ("Arbeit", "workers unions wages strikes factories contracts pensions apprentices"),
        "Insurance": ("Versicherung", "premiums risks claims policies insurers losses actuaries damages"),
    },
    "Computing": {
        "Cryptography": ("Kryptographie", "ciphers keys primes signatures encryption codes secrets proofs"),
        "Databases": ("Datenbanken", "tables queries indexes transactions records joins schemas backups"),
        "<script>alert(1)</script>": (
            "<b>Skript</b>",
            "scripts browsers injection escaping forms cookies attacks links",
        ),
    },
    "Languages": {
        "النحو العربي": ("Arabische Grammatik", "النحو الفعل الاسم الجملة القواعد اللغة الحروف الكلام"),
        "茶道": ("Teezeremonie", "茶道 茶室 抹茶 茶碗 亭主 露地 掛物 茶会"),
    },
}
OPENINGS = (
    "A handbook of {0} and {1}, with a chapter on {2}.",
    "The author follows {0} and {1} through three centuries.",
    "Essays on {0}, {1} and {2}.",
    "This study asks how {0} shaped {1}, and what became of {2}.",
    "An illustrated guide to {0} for readers who know {1} but not {2}.",
)
MORE = (
    "New sources show the part that {0} and {1} played.",
    "Maps and tables describe {0}; an appendix lists {1}.",
    "The second part turns to {0}, {1} and {2}.",
    "Letters and diaries tell of {0} and of {1}.",
)
ABSTRACT = (
    "An illustrated history of honey. The author visits hives and beekeepers in old oak forests, where rangers left "
    "clearings among the saplings so that bees would find nectar. From there the story follows wax and honey down to "
    "the ports: merchants, tariffs and the markets of three centuries. An appendix lists remedies made from herbs, and "
    "a map shows the timber roads along which swarms were carried."
)
_PLAIN = {"النحو العربي", "茶道"}


def subjects():
    """Names of all labels: the fields, then their subjects."""
    return [*FIELDS, *(name for field in FIELDS.values() for name in field)]


def vocabulary():
    """The label table with URIs and German names."""
    german = {name: other for field in FIELDS.values() for name, (other, _) in field.items()}
    names = subjects()
    fields = (
        "Landwirtschaft",
        "Astronomie",
        "Seefahrt",
        "Musik",
        "Medizin",
        "Wirtschaft",
        "Informatik",
        "Sprachen",
    )
    uris = [f"https://subjects.example/{number}" for number in range(len(names))]
    german |= dict(zip(FIELDS, fields, strict=True))
    return LabelVocab.from_names(names, uris=uris, languages={"en": names, "de": [german[name] for name in names]})


def catalogue(n_rows=2400, seed=0):
    """Abstracts and the names of their subjects."""
    random = np.random.default_rng(seed)
    fields = list(FIELDS)
    weights = np.array([len(FIELDS[field]) for field in fields], dtype=float)
    texts, labels = [], []
    for _ in range(n_rows):
        field = str(random.choice(fields, p=weights / weights.sum()))
        text, names = _record(random, field)
        texts.append(text)
        labels.append(names)
    return texts, labels


def boxes(n_boxes=60, seed=1):
    """Abstracts in boxes of two to four: texts, labels of the whole box for each text, name of its box."""
    random = np.random.default_rng(seed)
    fields = [field for field in FIELDS if field != "Languages"]
    texts, labels, groups = [], [], []
    for box in range(n_boxes):
        records = [_record(random, str(random.choice(fields))) for _ in range(random.integers(2, 5))]
        together = sorted({name for _, names in records for name in names})
        texts += [text for text, _ in records]
        labels += [together] * len(records)
        groups += [f"Box {box + 1}"] * len(records)
    return texts, labels, groups


def _record(random, field):
    own = list(FIELDS[field])
    chosen = [str(name) for name in random.choice(own, size=min(len(own), random.integers(1, 3)), replace=False)]
    if random.random() < 0.25:
        other = str(random.choice([name for name in FIELDS if name not in (field, "Languages")]))
        chosen.append(str(random.choice(list(FIELDS[other]))))
    text = _text(random, chosen)
    names = [name for name in chosen if random.random() < 0.97] or chosen[:1]
    if random.random() < 0.45:
        names.append(field)
    if random.random() < 0.02:
        names.append(str(random.choice(subjects())))
    return text, list(dict.fromkeys(names))


def _text(random, chosen):
    pool = [(name, word) for name in chosen for word in _words(name)]
    if chosen[0] in _PLAIN:
        mark = "" if chosen[0] == "茶道" else " "
        return mark.join(str(word) for word in random.choice(_words(chosen[0]), size=6))
    words = [str(pool[place][1]) for place in random.permutation(len(pool)) if pool[place][0] not in _PLAIN]
    sentences = [str(random.choice(OPENINGS)).format(*words[:3])]
    for begin in range(3, min(len(words) - 2, 10), 3):
        sentences.append(str(random.choice(MORE)).format(*words[begin : begin + 3]))
    return " ".join(sentences)


def _words(name):
    return next(field[name][1] for field in FIELDS.values() if name in field).split()
