"""Reading docstrings and cutting them into passages."""

from tagwood.demo.docstrings import cut, read_docstrings


def test_objects_have_the_name_that_users_import():
    docstrings, names = read_docstrings(["scipy"])
    found = {entry.name for entry in docstrings}
    assert {"scipy.signal.savgol_filter", "scipy.signal.windows.hann", "scipy.special.erf"} <= found
    assert {"scipy.stats.norm", "scipy.signal.ShortTimeFFT.stft"} <= found
    assert names["scipy.signal.windows.windows.hann"] == "scipy.signal.windows.hann"


def test_examples_keep_code_and_leave_out_its_output():
    texts, _ = cut("Sum it all up.\n\nExamples\n--------\nAdd two numbers with it:\n\n>>> add(1, 2)\n3\n")
    assert texts == ["Sum it all up.", "Add two numbers with it: add(1, 2)"]


def test_references_directives_and_roles_do_not_become_text():
    doc = """Solve :func:`~a.b.solve` the ``hard`` way [1]_.

    .. versionadded:: 1.0
       Some words that nobody needs to read here.

    References
    ----------
    .. [1] A. Author, A book with a long title, 1999.
    """
    assert cut(doc).texts == ["Solve a.b.solve the hard way."]


def test_see_also_lists_are_read_in_every_form():
    doc = "Do something useful.\n\nSee Also\n--------\na, b.c : First.\n:func:`d`\n    Second.\ne\n"
    assert cut(doc).see_also == ["a", "b.c", "d", "e"]
