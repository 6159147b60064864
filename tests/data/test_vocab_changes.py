"""Two label tables: what changed between them, and how a newer one is brought into a model's."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tagwood.data import LabelVocab
from tagwood.data.vocab_changes import Renamed, compare_vocabs, update_table
from tagwood.errors import InputError


def table(*rows, removed=(), **languages):
    """A table of "uri name" rows; "-" is no URI."""
    pairs = [row.split(" ", 1) for row in rows]
    uris = ["" if uri == "-" else uri for uri, _ in pairs]
    vocab = LabelVocab.from_names([name for _, name in pairs], uris=uris if any(uris) else None, languages=languages)
    return vocab.remove(removed) if removed else vocab


OLD = table("u:1 ash", "u:2 oak", "u:3 elm", "- yew")


def test_changes_are_found_by_uri_whatever_the_order():
    new = table("u:3 elms", "u:2 oak", "u:9 fir", "u:1 ash", removed=[3])
    diff = compare_vocabs(OLD, new)
    assert (diff.by, diff.added, diff.removed) == ("uri", [2], [3])
    assert diff.renamed == [Renamed(2, 0, None, "elm", "elms")]
    assert (diff.masked, diff.unmasked, diff.is_empty) == ([3], [], False)
    back = compare_vocabs(new, OLD)
    assert (back.added, back.removed, back.unmasked) == ([3], [2], [0])


def test_labels_without_a_uri_go_by_name():
    new = table("u:1 ash", "u:2 oak", "u:3 elm", "u:4 yew")
    assert compare_vocabs(OLD, new).is_empty
    assert compare_vocabs(new, OLD).is_empty


def test_homonyms_without_a_uri_are_not_guessed():
    old = table("u:1 ash", "- yew")
    new = table("u:1 ash", "u:4 yew", "u:5 yew")
    diff = compare_vocabs(old, new)
    assert (diff.added, diff.removed) == ([1, 2], [1])


def test_names_decide_where_a_table_has_no_uris_and_ids_if_asked():
    new = table("- ash", "- oaks")
    assert compare_vocabs(table("- ash", "- oak"), new).added == [1]
    by_id = compare_vocabs(table("- ash", "- oak"), new, by="id")
    assert by_id.renamed == [Renamed(1, 1, None, "oak", "oaks")]
    assert compare_vocabs(OLD, new).by == "name"
    with pytest.raises(InputError, match="both tables must have URIs"):
        compare_vocabs(OLD, new, by="uri")
    with pytest.raises(InputError, match="Did you mean 'name'"):
        compare_vocabs(OLD, new, by="nme")


def test_names_in_languages_are_compared_where_both_have_them():
    old = table("u:1 ash", de=["Esche"], fi=["saarni"])
    new = table("u:1 ash", de=["Eschen"], fr=["frêne"])
    assert compare_vocabs(old, new).renamed == [Renamed(0, 0, "de", "Esche", "Eschen")]


@settings(deadline=None)
@given(st.lists(st.sampled_from("abcdefgh"), unique=True), st.lists(st.sampled_from("abcdefgh"), unique=True))
def test_every_label_is_added_removed_or_in_both(old, new):
    diff = compare_vocabs(table(*(f"u:{x} {x}" for x in old)), table(*(f"u:{x} {x}" for x in new)))
    assert {new[j] for j in diff.added} == set(new) - set(old)
    assert {old[i] for i in diff.removed} == set(old) - set(new)
    assert all(old[i] == new[j] for i, j in diff.pairs.items())


def test_an_update_keeps_ids_and_brings_names_masks_and_uris():
    new = table("u:9 fir", "u:2 oak", "u:4 yew", "u:1 ash tree", "u:8 gone", removed=[1, 4])
    update = update_table(OLD, new)
    assert list(update.vocab.names) == ["ash tree", "oak", "elm", "yew"]
    assert list(update.vocab.uris) == ["u:1", "u:2", "u:3", "u:4"]
    assert update.vocab.removed_mask().tolist() == [False, True, False, False]
    assert (update.renamed, update.masked, update.added) == ({0: ("ash", "ash tree")}, [1], [])
    assert (update.missing, update.left_out) == ([2], 1)


def test_new_labels_stand_behind_the_present_ones_and_removed_ones_are_not_added():
    new = table("u:9 fir", "u:8 gone", "u:1 ash", removed=[1], de=["Tanne", "weg", "Esche"])
    update = update_table(OLD, new, add=True, mask_missing=True)
    assert (list(update.vocab.names)[4:], update.added, update.sources) == (["fir"], [4], {0: 2, 4: 0})
    assert update.vocab.name(4, "de") == "Tanne"
    assert update.vocab.uri(4) == "u:9"
    assert update.masked == [1, 2, 3]
    assert update_table(update.vocab, new, add=True, mask_missing=True).vocab == update.vocab


def test_a_table_is_not_translated_unless_asked():
    old = table("u:1 Esche", "u:2 Eiche", "u:3 Ulme")
    new = table("u:1 ash", "u:2 oak", "u:3 elm", de=["Esche", "Eichen", ""], en=["ash", "oak", "elm"])
    assert update_table(old, new).renamed == {1: ("Eiche", "Eichen"), 2: ("Ulme", "elm")}
    assert update_table(old, new).language == "de"
    assert update_table(old, new, language="en").renamed[0] == ("Esche", "ash")


def test_names_that_could_not_be_told_apart_are_refused():
    with pytest.raises(InputError, match="needs a name or URI of its own"):
        update_table(table("- ash", "- oak"), table("- oak"), by="id")


def test_numbered_tables_get_names_and_keep_their_numbers():
    update = update_table(LabelVocab.numbered(3), LabelVocab.from_names(["ash", "oak"]), by="id")
    assert [update.vocab.name(label) for label in range(3)] == ["ash", "oak", "2"]
