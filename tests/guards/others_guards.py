"""Guards against owners of jobs, and texts that grow."""

from tests.guards.guard import DOOR, NOBODY_IN, Guard

OTHERS_GUARDS = (
    Guard(
        DOOR,
        "what is merged in YAML has a bound",
        "translators/yaml_tree.py",
        'if self.merged["fields"] > _MOST_MERGED:',
        'if self.merged["fields"] < 0:',
        "tests/unit/translators/test_yaml_tree.py::test_merges_can_not_explode",
    ),
    Guard(
        DOOR,
        "a run that asks to be tried again waits",
        "model/retry.py",
        "max(wanted, Moment(now + round(retry.asked_delay * SECOND)))",
        "wanted",
        "tests/unit/model/test_retry.py::test_a_run_that_asks_to_be_tried_again_waits_a_while",
    ),
    Guard(
        DOOR,
        "asking to be tried again has an end",
        "model/retry.py",
        "if run.attempt - run.failures - run.lost > retry.asked_retries:",
        "if run.attempt < 0:",
        "tests/unit/model/test_retry.py::test_asking_has_an_end",
    ),
    Guard(
        NOBODY_IN,
        "of what a run wrote only colours reach a terminal",
        "cli/terminal.py",
        "else written_out(found)",
        "else found[0]",
        "tests/unit/cli/test_terminal.py::test_all_else_is_written_out",
    ),
    Guard(
        NOBODY_IN,
        "no line of the log controls a terminal",
        "logs/formats.py",
        "return visible(super().format(record))",
        "return super().format(record)",
        "tests/unit/logs/test_formats.py::test_texts_of_others_control_no_terminal",
    ),
)
