"""What a page compiles, compiled once in a process: that takes half a second, and tests make hundreds of pages."""

from functools import cache, partial
from types import CodeType

from jinja2 import BytecodeCache, Environment
from jinja2.bccache import Bucket

from tokimori.api.app import operations
from tokimori.clock import SystemClock
from tokimori.node.http_door import formats
from tokimori.web import page


class _Compiled(BytecodeCache):
    """What pages have compiled in this process."""

    def __init__(self) -> None:
        self._codes: dict[tuple[str, str], CodeType | None] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self._codes.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._codes[bucket.key, bucket.checksum] = bucket.code


@cache
def compile_once() -> None:
    """Let all pages of this process share what they compile."""
    vars(page)["Environment"] = partial(Environment, bytecode_cache=_Compiled())


def compile_at_once() -> None:
    """Compile all templates, and the paths of all routes, for the nodes that are forked from this process."""
    compile_once()
    clock = SystemClock()
    console = page.Page(lambda _: None, clock)  # type: ignore[arg-type, return-value]
    for name in console._templates.list_templates():
        console._templates.get_template(name)
    console.routes()
    for each in operations(lambda _: None, None, formats(clock)):  # type: ignore[arg-type, return-value]
        each.route()
