"""The table of supported models is what the registry and the tests say."""

from tests.support import supported


def test_the_table_is_up_to_date():
    written = supported.PATH.read_text(encoding="utf-8")
    assert written == supported.text(), "run: python -m tests.support.supported"


def test_every_class_of_the_registry_has_cases():
    for library, name in supported.registry():
        assert supported.row(library, name)[-1] != "0", name
