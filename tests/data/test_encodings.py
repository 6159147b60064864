"""Encodings of text files are found by their bytes, said, and never guessed where the content is UTF-8."""

import gzip

import pytest

from tagwood.data import BadLines, ReadReport, read_dataset
from tagwood.data.encodings import detect_encoding
from tagwood.errors import DataError, InputError

TEXTS = {
    "German": "Bäume und Sträucher in Süddeutschland;Wälder|Öffentliche Gärten",
    "French": "Élèves et étudiants à l'école française;écoles|garçons",
    "Spanish": "La cigüeña y el niño en España;niños|año",
    "Swedish": "Träd och buskar på Åland;träd|öar",
    "Finnish": "Hyönteiset ja linnut Pohjois-Suomessa;pöytäkirjat|hyönteiset",
    "one letter": "The history of München;cities",
    "signs": "Preise in € und „Anführungszeichen“ für Bücher;Währung",
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_excel_encodings_are_found(name, encoding, pack, tmp_path):
    path = tmp_path / "rows.csv"
    content = f"text;labels\r\n{TEXTS[name]}\r\nOnly ASCII here;cities\r\n"
    path.write_bytes(pack(content.encode(encoding)))
    report = ReadReport()
    data = read_dataset(path, report=report)
    text, labels = TEXTS[name].split(";")
    assert data.texts[0] == text
    assert [data.vocab.name(label) for label in data.label_lists()[0]] == labels.split("|")
    assert report.files[0].encoding == encoding
    assert report.files[0].encoding_guessed == (encoding == "cp1252")
    assert any("--encoding" in warning for warning in report.warnings()) == (encoding == "cp1252")


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1250", "Łódź i Kraków, książki o zażółceniu gęśli jaźń"),
        ("cp1251", "Деревья и кустарники России, книги о природе"),
        ("shift_jis", "日本の森林と樹木について"),
    ],
)
def test_other_encodings_are_guessed_if_the_text_is_long_enough(encoding, text, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(f"text;labels\n{text};a\n".encode(encoding))
    assert read_dataset(path).texts == [text]


def test_a_named_encoding_is_taken_at_its_word(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes("text;labels\nBäume;a\n".encode("cp850"))
    assert read_dataset(path, encoding="cp850").texts == ["Bäume"]
    with pytest.raises(DataError, match=r"line 2: byte 2 is not utf-8 text.*--encoding cp1252"):
        read_dataset(path, encoding="utf-8")
    with pytest.raises(InputError, match=r"encoding must be one that Python knows; got 'cp99'.*utf-16, cp1252"):
        read_dataset(path, encoding="cp99")


def test_the_first_letter_beyond_ascii_may_be_far_away(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"text;labels\n" + b"plain words;a\n" * 400_000 + "Bäume;b\n".encode("cp1252"))
    assert detect_encoding(path) == ("cp1252", True)


def test_utf_8_with_damaged_lines_stays_utf_8(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes("text,labels\nBäume,a\nWälder,b\n".encode() + b"caf\xe9,c\n" + "Öl,d\n".encode())
    bad = BadLines()
    assert detect_encoding(path).name == "utf-8"
    with pytest.raises(DataError, match="line 4: byte 4 is not utf-8"):
        read_dataset(path)
    assert read_dataset(path, skip_bad=bad).texts == ["Bäume", "Wälder", "Öl"]
    assert bad.count == 1


def test_what_is_not_text_is_refused_with_the_option_that_helps(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(bytes(range(256)) * 40)
    with pytest.raises(DataError, match=r"--encoding|--format"):
        read_dataset(path)


def test_a_half_character_of_utf_16_is_an_error(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes("text;labels\nBäume;a\n".encode("utf-16") + b"\x00\xd8")
    with pytest.raises(DataError, match="is not utf-16 text"):
        read_dataset(path)
