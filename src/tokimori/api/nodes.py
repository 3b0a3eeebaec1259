"""The paths of state: nodes, figures of everything, and the schema of the store."""

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from tokimori.api.answers import answer
from tokimori.api.operation import Handler, Operation, Routes
from tokimori.api.requests import NoRequest
from tokimori.model.transitions import ENDS, RunState
from tokimori.ports.nodes import NodeRecord
from tokimori.ports.store import SchemaStatus
from tokimori.service.doctor.finding import Diagnosis
from tokimori.service.service import Service
from tokimori.service.views.nodes import NodeRecord as NodeView

MOST_COUNTED = 100
"""Live runs of a state are counted up to here: all of them would be read, one by one, for one number."""


class Number(Struct, frozen=True, kw_only=True):
    """Number of things; `more`: there may be more than that."""

    count: int
    more: bool


class Stats(Struct, frozen=True, kw_only=True):
    """Figures of a store. `nodes` and `programs` by state, `runs` that have not ended by state, `pauses` of queues."""

    nodes: dict[str, int]
    programs: dict[str, int]
    runs: dict[str, Number]
    pauses: int


class StopRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Stop of a node; `now`: runs are ended and handed back, without the grace of the node."""

    now: bool = False


class NodeRoutes(Routes):
    """The part of the API for nodes, and for the cluster as a whole."""

    def operations(self) -> Sequence[Operation]:
        """Return the operations of this part."""
        kinds = (
            ("node_list", "/api/v2/nodes", self.list, list[NodeView]),
            ("stats", "/api/v2/stats", self.stats, Stats),
            ("db_status", "/api/v2/schema", self.schema, SchemaStatus),
            ("db_doctor", "/api/v2/doctor", self.doctor, Diagnosis),
        )
        one, every = "/api/v2/nodes/{node_id}", "/api/v2/nodes"
        orders: Sequence[tuple[str, Handler, Mapping[str, object]]] = (
            ("drain", self.drain, {}),
            ("resume", self.resume, {}),
            ("stop", self.stop, {"now": False}),
        )
        return [
            *(Operation(name, "GET", path, handler, answers) for name, path, handler, answers in kinds),
            *(
                Operation(f"{name}_{word}", "POST", f"{path}/{word}", handler, list[NodeView], example=example)
                for name, path in (("node", one), ("nodes", every))
                for word, handler, example in orders
            ),
        ]

    async def list(self, request: Request) -> Response:
        """List nodes and programs: the living ones first, then those that left or died, at most a thousand."""
        return answer([NodeView.made(node) for node in await self._service(request).nodes.list()])

    async def drain(self, request: Request, node_id: str | None, body: NoRequest) -> Response:
        """Stop a node, or all living nodes, from taking new runs until `resume`. Their runs go on."""
        return _answer_with(await self._service(request).nodes.drain(node_id))

    async def resume(self, request: Request, node_id: str | None, body: NoRequest) -> Response:
        """Let a node, or all that live now, take runs again."""
        return _answer_with(await self._service(request).nodes.resume(node_id))

    async def stop(self, request: Request, node_id: str | None, body: StopRequest) -> Response:
        """Shut down a node, or all that live now: its runs get its grace to finish, or (`now`) begin anew elsewhere."""
        return _answer_with(await self._service(request).nodes.stop(node_id, now=body.now))

    async def stats(self, request: Request) -> Response:
        """Return the number of nodes and live runs, by state, and of pauses."""
        service = self._service(request)
        nodes = await service.nodes.list()
        return answer(
            Stats(
                nodes=dict(Counter(node.state.value for node in nodes if not node.is_program)),
                programs=dict(Counter(node.state.value for node in nodes if node.is_program)),
                runs=await live_runs(service),
                pauses=len(await service.queues.pauses()),
            )
        )

    async def schema(self, request: Request) -> Response:
        """Return the version of the store's schema, and the pending migrations: `tokimori db migrate` applies them."""
        return answer(await self._service(request).db.status())

    async def doctor(self, request: Request) -> Response:
        """Check the store and its nodes: `ok`, `warn` or `fail` for each check, and what mends it. For admins. It
        listens to living nodes for some seconds.
        """
        return answer(await self._service(request).db.doctor())


async def live_runs(service: Service) -> dict[str, Number]:
    """Return the number of live runs by state. No text of them is read."""
    runs = {}
    for state in (each for each in RunState if each not in ENDS):
        found = await service.runs.list(state=state, limit=MOST_COUNTED, longest=0)
        runs[state.value] = Number(count=len(found), more=found.next is not None)
    return runs


def _answer_with(nodes: Sequence[NodeRecord]) -> Response:
    return answer([NodeView.made(node) for node in nodes])
