"""PHP files that return an array of plain values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokimori.errors import InvalidFile
from tokimori.translators.php_array import read_php_array

WHOLE = r"""<?php
declare(strict_types=1);
namespace Shop\Jobs;
use Acme\Reader; // the reader
use Acme\Long\Name as Short;
# all of it
return [
    'text' => 'it\'s \n', "escaped" => "a\tb\$c",
    'numbers' => array(1, -2, 3.5,),
    'words' => [true, False, NULL],
    /* classes,
       by names */
    'classes' => [Reader::class, Short\Part::class, \Other\Thing::class, Mine::class],
    'empty' => [],
];
?>
"""


def test_every_plain_value() -> None:
    """Texts, numbers, truth values, nothing, class names and arrays, in both notations, with comments between."""
    assert read_php_array(WHOLE, "f.php").plain() == {
        "text": "it's \\n",
        "escaped": "a\tb$c",
        "numbers": [1, -2, 3.5],
        "words": [True, False, None],
        "classes": ["Acme\\Reader", "Acme\\Long\\Name\\Part", "Other\\Thing", "Shop\\Jobs\\Mine"],
        "empty": [],
    }


def test_a_comment_may_speak_of_return() -> None:
    """Where the array is returned is not where a comment says so."""
    text = "<?php\n/**\n * @return array\n */\n// return 5;\nuse Acme\\Reader;\nreturn [Reader::class];"
    assert read_php_array(text, "f.php").plain() == ["Acme\\Reader"]


def test_values_know_their_lines() -> None:
    """A member of an array stands where its key, or it itself, begins."""
    found = read_php_array("<?php\nreturn [\n  ['a' => 1],\n  ['a' => 2],\n];", "f.php").content
    assert isinstance(found, list)
    assert [value.line for _, value in found] == [3, 4]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "f.php:1: it does not return an array"),
        ("<?php echo 1; return [];", "f.php:1: it does not return an array"),
        pytest.param(
            f"<?php{' ' * 10_000}echo 1; return [];", "f.php:1: it does not return an array", id="many blanks"
        ),
        pytest.param(f"<?php {'use a; //' * 5_000}", "f.php:1: it does not return an array", id="many comments"),
        ("<?php return 5;", "f.php:1: it returns no array"),
        ("<?php\nreturn [\n getenv('X')];", "f.php:3: 'getenv' is no plain value"),
        ("<?php\nreturn [`id`];", "f.php:2: '`' is no plain value"),
        ("<?php return [$x];", "f.php:1: '$' is no plain value"),
        ("<?php return ['a' . 'b'];", "f.php:1: '.' is no plain value"),
        ("<?php return [1 2];", "`,` or `]` is missing"),
        ("<?php return [1", "`,` or `]` is missing"),
        ("<?php return [", "'' is no plain value"),
        ("<?php return " + "[" * 40 + "]" * 40 + ";", "nested too deeply"),
    ],
)
def test_what_is_no_plain_value_is_refused(text: str, why: str) -> None:
    """Calls, variables, operators and broken files: nothing of PHP is run, and the line is named."""
    with pytest.raises(InvalidFile) as error:
        read_php_array(text, "f.php")
    assert why in error.value.message


@given(st.text(alphabet="[]()=>,;'\"\\ax1.$# \n/*", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text raises anything else."""
    try:
        read_php_array(f"<?php return {text}", "f.php")
    except InvalidFile:
        pass
