"""The sessions in the documentation, run command by command; the output must be what the pages show.

``PYTHONPATH=tests/support python tests/test_tutorial.py`` writes the present output into the pages.
"""

import pytest
from sessions import DOCS, in_examples, plain, run_session, sessions_of, write_sessions

PAGES = {"tutorial.md": 4, "how-to/work-with-models.md": 7}


@pytest.mark.parametrize("name", PAGES)
def test_every_command_prints_what_the_page_shows(name, tmp_path, monkeypatch):
    if name == "how-to/work-with-models.md":
        pytest.importorskip("optuna")
        pytest.importorskip("pyoxigraph")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    in_examples(tmp_path)
    sessions = sessions_of(DOCS / name)
    assert len(sessions) == PAGES[name]
    for session in sessions:
        assert run_session(session) == plain(session)


if __name__ == "__main__":
    for name in PAGES:
        write_sessions(DOCS / name)
