"""`detect_language`: which of some languages a text is written in. In: a text and candidates. Out: their shares.

A small detector without a model: frequent function words, letters, word endings and scripts of each language. It is
made for choosing between a few candidates, such as the languages of a vocabulary.

Decisions: evidence is divided among the languages that share it, candidates or not, so that *de* or *in* decide little.
A script that only some languages use excludes all others. Words that speak for a language which is no candidate count
for none of them (None). Few words with evidence are enough to decide, since they are spread over a text.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache

from tagwood.errors import InputError

# Frequent words of each language; words with many languages in common weigh little.
_WORDS = {
    "bg": "и на в от за да се не са по със при като това който които или към след между през е че във до им ще може "
    "има",
    "ca": "el la els les i de del dels en un una uns per amb que és són al als com més aquest aquesta entre sobre seva "
    "però també no ha han ser dins fins cada quan on",
    "cs": "a v na se je z že do o s k i pro ve ke od po jako který která které nebo jsou za při jeho byl bylo podle "
    "mezi "
    "také jejich však než může není pod už tak",
    "da": "og i at det en den til er som på de med for ikke der af et har om fra var men sig kan eller ved efter blev "
    "også være mellem deres efter hvor når denne disse hvordan",
    "de": "der die und in den von zu das mit sich des auf für ist im dem nicht ein eine als auch es an werden aus er "
    "hat "
    "dass sie nach wird bei einer um am sind noch wie einem über einen so zum war haben nur oder aber vor zur bis "
    "mehr durch zwischen ihre sowie unter beim dieser",
    "el": "και το της του η την τα των που με για από στην στο είναι ο οι τη τον σε ως δεν θα να μια ένα αυτό στη στον",
    "en": "the of and to in a is that for it as was with on by be at from this are or an which have not were but has "
    "had "
    "its their they how what into between we can these been during our using use new other more who when there will",
    "es": "de la que el en y a los se del las un por con no una su para es al lo como más pero sus le o este ha entre "
    "sobre también desde está cuando muy sin son hasta hay donde durante siglo según estudio",
    "et": "ja on ei et kui ka see oma mis või aga ning nende selle kes oli tema pärast seda siis üle veel nagu meie "
    "juba "
    "mida välja kuni ainult eest kohta ühe aasta",
    "fi": "ja on ei että se oli hän mutta ovat kun niin myös tai joka mitä sen sekä olla ole jos kuin vain nyt joita "
    "mukaan kanssa jälkeen voi hänen ovatko kuinka miten sitä vuoden välillä suomen vuotta jotka tämä sisältää",
    "fr": "de la le et les des en un du une que est pour qui dans par plus pas au sur ne se ce il sont avec son aux "
    "ses "
    "ou comme mais nous sa cette été entre leur même ces être deux siècle après chez sous d l à",
    "hr": "i u je na se da za su od s o kao koji koja koje ili ne bi to po iz nije ali te prema između biti samo još "
    "što "
    "može nakon već jer hrvatske",
    "hu": "a az és hogy nem is egy ez meg volt csak de vagy mint már ki még azt el van ha ami minden között után által "
    "kell lehet ezt aki amely valamint szerint alapján magyar",
    "it": "di e che il la in un è per non una del si le della da con dei i al sono come più anche nel gli alla su ma "
    "ha "
    "delle ed tra nella questo suo dal lo degli essere fra dalla storia secolo sulla nelle",
    "lt": "ir kad yra į su iš kaip ar apie tai bet po nuo jo buvo dėl prie per už tik jos jų yra kurie kuris arba metų",
    "lv": "un ir no ar uz par kas ka tas bija lai vai kā pēc pie tika tā savu bet arī gan latvijas starp viņa kuru "
    "gadā",
    "nl": "de van het een en in is dat op te met voor zijn die niet aan er om ook als bij door naar maar uit dan over "
    "of "
    "hij worden wordt was nog hun tussen tot deze meer onder kan werd heeft hoe",
    "no": "og i det er på til som en av for at med har de ikke den om et fra var men seg kan eller ved etter ble også "
    "være mellom hvordan når bare noe mot blir hva deres norske gjennom",
    "pl": "w i na z do się nie że o jest to za po od jak przez dla oraz jego czy są ale tego może przy który która "
    "które "
    "między także jako ich był lub ze więc już",
    "pt": "de a o que e do da em um para com não uma os no se na por mais as dos como mas ao das à seu sua ou quando "
    "entre sobre também pelo pela até isso são é foi desde estudo século nos",
    "ro": "și de în a la cu pe din care o este un să se nu pentru sau mai ca prin fi după între sunt lui ale al despre "
    "dar acest această fost asupra într ce",
    "ru": "и в не на что с по как из к у за от это для а то о же его но они мы так или при также который которые был "
    "были между после может под до если есть более",
    "sk": "a v na sa je že s z do o k pre ako aj po za pri od ktorý ktorá ktoré alebo sú nie medzi podľa jeho bol bolo "
    "však tiež ich pod iba môže",
    "sl": "in je v na se za da so ki z s po pri kot od tudi ali ne iz bi med bil bila ter do kako več ob pa njihove "
    "lahko",
    "sv": "och i att det som en på är av för med den till inte om ett har de från var men sig kan eller vid efter "
    "också "
    "vara mellan hur när bara mot blir vad deras svenska genom under där denna dessa så ut",
    "tr": "ve bir bu da de için ile olarak çok daha gibi olan en kadar sonra o ne ya her ama ise arasında üzerine göre "
    "üzerinde türk olduğu veya değil",
    "uk": "і в на не що з до у та за як від по це для про є його але або при також який які був були між після може "
    "під "
    "й чи цього",
}
# Letters that tell languages of one script apart.
_LETTERS = {
    "ca": "çïàèòŀ·",
    "cs": "ěřůťďčšž",
    "da": "æøå",
    "de": "äöüß",
    "es": "ñ¿¡áéíóú",
    "et": "õäöü",
    "fi": "äö",
    "fr": "éèêàçùûîôœ",
    "hr": "čćđšž",
    "hu": "őűáéíóú",
    "it": "àèìòù",
    "lt": "ąčęėįšųūž",
    "lv": "āčēģīķļņšūž",
    "no": "æøå",
    "pl": "ąćęłńóśźż",
    "pt": "ãõçáéíóúâêô",
    "ro": "ăâîșțşţ",
    "ru": "ыэъё",
    "sk": "ľĺŕôáčďéíňóšťúýž",
    "sl": "čšž",
    "sv": "åäö",
    "tr": "ğışç",
    "uk": "іїєґ",
    "bg": "ъщ",
}
# Endings of longer words.
_ENDINGS = {
    "ca": "ció itat ment ona",
    "cs": "ství ého ých ová ní",
    "da": "else hed erne ning ige tion",
    "de": "ung ungen keit heit lich isch ische ischen schaft tion ierung en chen",
    "en": "ing tion tions ness ment ity ed ly ies ical ology",
    "es": "ción ciones dad miento ología ado ando ico",
    "et": "mine line sed dus ust ile",
    "fi": "nen sta ssa lla ksi mme ista ssä sten minen tus den suus tta llä",
    "fr": "tion tions ment ité ique iques eur aux ée eux ologie aise",
    "hr": "nje skih stvo nost skog ija",
    "hu": "ság ség ban ben nak nek tól ről ése ása",
    "it": "zione zioni mento ità ico ica ica ologia ello",
    "lt": "imas umas ijos inis ybės ų",
    "lv": "šana ība ības iem ām",
    "nl": "ing heid lijk lijke schap tie ische en ende isch",
    "no": "else het ene ning ige sjon",
    "pl": "ość nie ego ych anie owych ów cja",
    "pt": "ção ções dade mento ologia ndo ões ico",
    "ro": "ului ilor ție area iei ele",
    "sk": "ého ých nie osti stvo ová",
    "sl": "nje nega skih nost skega anje",
    "sv": "ning het arna erna lig ande tion isk iska or",
    "tr": "lar ler nın nin lık lik ları leri",
}
# Languages by script: of the first group of each, letters and words decide.
_SCRIPTS = {
    "ARABIC": ("ar",),
    "CYRILLIC": ("bg", "ru", "uk"),
    "GREEK": ("el",),
    "HANGUL": ("ko",),
    "HEBREW": ("he",),
    "HIRAGANA": ("ja",),
    "KATAKANA": ("ja",),
    "CJK": ("zh",),
}
LANGUAGES = tuple(sorted({*_WORDS, *(code for codes in _SCRIPTS.values() for code in codes)}))
_ALIASES = {"nb": "no", "nn": "no"}
_WORD = re.compile(r"[^\W\d_]+")
_MOST_WORDS = 3000  # words of a text that are looked at
_LETTER_WEIGHT = 0.5
_ENDING_WEIGHT = 0.4
_FULL_SHARE = 0.25  # share of words with evidence from which no doubt is left that the text is in a known language


def detect_language(text: str, candidates: Iterable[str]) -> list[tuple[str | None, float]]:
    """Return candidate languages with their shares of the text, largest first; None is for no candidate.

    Shares add up to 1. A language that the detector does not know raises `InputError`.

    Examples
    --------
    >>> detect_language("The quick brown fox jumped over the lazy dog", ["fi", "en", "sv"])[0][0]
    'en'
    >>> detect_language("Suomen kansalliskirjasto on maan vanhin tieteellinen kirjasto", ["sv", "en", "fi"])[0][0]
    'fi'
    >>> detect_language("4711 0815", ["en", "de"])
    [(None, 1.0), ('en', 0.0), ('de', 0.0)]
    """
    wanted = list(dict.fromkeys(candidates))
    unknown = [code for code in wanted if _ALIASES.get(code, code) not in LANGUAGES]
    if unknown or not wanted:
        raise InputError(
            "candidate languages must be known to the detector",
            given=", ".join(map(repr, unknown)) or "none",
            hint=f"Known languages: {', '.join(LANGUAGES)}.",
        )
    words = Counter(_WORD.findall(unicodedata.normalize("NFC", text).casefold())[:_MOST_WORDS])
    evidence = dict.fromkeys(wanted, 0.0)
    told = own = 0  # words with evidence, and those of them with evidence for a candidate
    for word, count in words.items():
        found = word_evidence(word)
        if not found:
            continue
        told += count
        own += count * (2 * max(found.get(_ALIASES.get(code, code), 0.0) for code in wanted) >= max(found.values()))
        for code in wanted:
            evidence[code] += count * found.get(_ALIASES.get(code, code), 0.0)
    # Squares: the language with the most evidence is the likely one, by more than its share of the evidence.
    squares = {code: value**2 for code, value in evidence.items()}
    whole = sum(squares.values())
    if not whole:
        return [(None, 1.0), *((code, 0.0) for code in wanted)]
    sure = min(1.0, told / words.total() / _FULL_SHARE) * own / told
    shares: list[tuple[str | None, float]] = [(code, sure * square / whole) for code, square in squares.items()]
    return sorted([*shares, (None, 1.0 - sure)], key=lambda pair: -pair[1])


def word_evidence(word: str) -> dict[str, float]:
    """Return how much a word speaks for each language; nothing for words that tell nothing.

    Examples
    --------
    >>> sorted(word_evidence("und")), word_evidence("qqq")
    (['de'], {})
    """
    script = _script(word)
    if script is not None and not set(script) & set(_WORDS):
        return dict.fromkeys(script, len(word) / len(script))  # no spaces: the longer, the more words
    words, letters, endings = _tables()
    found: dict[str, float] = {}

    def add(codes: Iterable[str], weight: float) -> None:
        use = [code for code in codes if script is None or code in script]
        for code in use:
            found[code] = found.get(code, 0.0) + weight / len(use) ** 2

    add(words.get(word, ()), 1.0)
    for letter in set(word) & letters.keys():
        add(letters[letter], _LETTER_WEIGHT)
    if len(word) > 4:
        for size in range(2, 8):
            add(endings.get(word[-size:], ()), _ENDING_WEIGHT)
    if script is not None and not found:
        add(script, _LETTER_WEIGHT)
    return found


@cache
def _tables() -> tuple[dict[str, list[str]], dict[str, list[str]], dict[str, list[str]]]:
    """Return the languages of each word, letter and ending."""
    letters = {code: " ".join(cell) for code, cell in _LETTERS.items()}
    words, single, endings = (_languages_of(table) for table in (_WORDS, letters, _ENDINGS))
    return words, single, endings


def _languages_of(table: Mapping[str, str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for code, items in table.items():
        for item in dict.fromkeys(items.split()):
            found.setdefault(item, []).append(code)
    return found


def _script(word: str) -> tuple[str, ...] | None:
    """Return the languages of a word's script; None for Latin letters."""
    name = unicodedata.name(word[0], "").partition(" ")[0]
    if name == "CJK" and any("\u3040" <= letter <= "\u30ff" for letter in word):
        return ("ja",)
    return _SCRIPTS.get(name)
