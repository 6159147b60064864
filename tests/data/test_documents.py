"""Documents: each text, Markdown or PDF file is one text, with labels beside it or without."""

import pytest

from tagwood.data import BadLines, ReadReport, read_dataset, read_records
from tagwood.errors import DataError

FONT = b"<< /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >>"
PARTS = [
    b"<< /Type /Catalog /Pages 2 0 R >>",
    b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
    b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 100] /Contents 4 0 R /Resources %s >>" % FONT,
]


def pdf(text):
    """A file of one page with a line of text."""
    stream = f"BT /F1 12 Tf 20 50 Td ({text}) Tj ET".encode()
    content, places = b"%PDF-1.4\n", []
    for number, part in enumerate([*PARTS, b"<< /Length %d >> stream\n%s\nendstream" % (len(stream), stream)], 1):
        places.append(len(content))
        content += b"%d 0 obj %s endobj\n" % (number, part)
    index = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"trailer << /Root 1 0 R /Size 5 >>\nstartxref\n%d\n%%%%EOF\n" % len(content)
    return content + b"xref\n0 5\n0000000000 65535 f \n" + index + end


@pytest.fixture
def folder(tmp_path):
    pytest.importorskip("pypdf")
    (tmp_path / "a.pdf").write_bytes(pdf("Oak and ash"))
    (tmp_path / "b.txt").write_bytes("Bäume\nim Wald".encode("cp1252"))
    (tmp_path / "c.md").write_text("# Sea\n")
    return tmp_path


def test_a_folder_of_documents_needs_no_labels_to_be_tagged(folder):
    found = list(read_records(folder, keep_columns=True))
    assert [(one.id, one.text) for one in found] == [("a", "Oak and ash"), ("b", "Bäume\nim Wald"), ("c", "# Sea\n")]
    assert found[0].columns == {"id": "a", "file": str(folder / "a.pdf")}
    assert [one.text for one in read_records(folder / "a.pdf")] == ["Oak and ash"]


def test_documents_with_keys_are_a_dataset_and_others_are_counted(folder):
    (folder / "a.key").write_text("trees\n")
    bad, report = BadLines(), ReadReport()
    data = read_dataset(folder, skip_bad=bad, report=report)
    assert (data.texts, data.ids, report.rows, report.bad_lines) == (["Oak and ash"], ["a"], 1, 2)
    with pytest.raises(DataError, match=r"b\.txt: has no b\.key or b\.tsv beside it"):
        read_dataset(folder)


def test_damaged_and_scanned_pdf_files_are_named(folder):
    (folder / "a.pdf").write_bytes(b"%PDF-1.4\nnot much more")
    with pytest.raises(DataError, match=r"a\.pdf: is not a readable PDF"):
        list(read_records(folder))
    (folder / "a.pdf").write_bytes(pdf(""))
    report = ReadReport()
    assert [one.text for one in read_records(folder / "a.pdf", report=report)] == [""]
    assert "a.pdf contains no text; a scan needs text recognition" in " ".join(report.warnings())
