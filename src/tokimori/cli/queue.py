"""`tokimori queue …`"""

from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Group, options
from tokimori.cli.output import print_answer, print_json, print_lines, print_notice
from tokimori.cli.session import in_service
from tokimori.cli.table import At, Row, listing, print_list
from tokimori.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tokimori.model.lanes import Pause
    from tokimori.service.queues import Queue
    from tokimori.service.service import Service

queue = Group("queue", help="Queues: groups of jobs that are paused, or have a rate, together.")

_COLUMNS = ("NAME", "JOBS", "RATE", "TAKEN", "PAUSED SINCE", "BY", "REASON")
_EVERYTHING = click.option("--all", "everything", is_flag=True, help="Everything, in every queue.")


@queue.command("list")
@click.option("--paused", is_flag=True, help="Only those that are paused by name.")
@listing(_COLUMNS)
def list_queues(*, paused: bool) -> None:
    """List the queues with the number of their jobs, and the pauses."""
    from tokimori.model.lanes import EVERYTHING
    from tokimori.service.queues import sentence
    from tokimori.service.validation import MOST_LISTED
    from tokimori.service.views.resources import Queue as QueueView

    async def act(service: "Service") -> "tuple[Sequence[Queue], Sequence[Pause], str]":
        found = list(page := await service.queues.list())
        while len(page) == MOST_LISTED:
            found += (page := await service.queues.list(page[-1].name))
        return found, await service.queues.pauses(), service.time_zone

    found, pauses, zone = in_service(act)
    for pause in pauses:
        if pause.queue == EVERYTHING:
            print_notice(sentence(pause))
    own = {pause.queue: pause for pause in pauses}
    listed: list[tuple[Queue, Sequence[Row]]] = []
    for each in found:
        its = own.get(each.name)
        pause_cells = (None, None, None) if its is None else (At(its.since, zone), its.by, its.reason)
        if its is not None or not paused:
            listed.append((each, [(each.name, each.jobs, each.rate, each.taken, *pause_cells)]))
    print_list(_COLUMNS, listed, QueueView.made)


@queue.command("set")
@click.argument("name")
@click.option(
    "--rate",
    required=True,
    metavar="N/T",
    help="How many of its runs start in any period, such as 100/1m or '10/s smooth'; none: any number.",
)
def set_rate(name: str, rate: str) -> None:
    """Set the rate of a queue: how many of its runs are claimed in any period, by all nodes together."""
    from tokimori.service.views.resources import Queue as QueueView

    found = in_service(lambda service: service.queues.set(name, rate))
    print_answer(QueueView.made(found), f"{found.name}: {'no rate' if found.rate is None else f'rate {found.rate}'}")


@queue.command()
@click.argument("name", required=False)
@_EVERYTHING
@click.option("--reason", metavar="TEXT", help="Shown while it is paused.")
@click.option("--now", is_flag=True, help="Cancel its running runs, instead of letting them finish.")
def pause(name: str | None, everything: bool, reason: str | None, now: bool) -> None:
    """Pause a queue, or --all: its runs wait, and nothing of it starts until it is resumed."""
    from tokimori.service.queues import sentence
    from tokimori.service.views.resources import Pause as PauseView

    chosen = _chosen(name, everything=everything)

    async def act(service: "Service") -> "tuple[Pause, object]":
        paused = await service.queues.pause(chosen, reason, now=now)
        return paused, await service.jobs.list(limit=1) if chosen is None else (await service.queues.get(chosen)).jobs

    paused, jobs = in_service(act)
    if not jobs:
        what = "there is no job yet" if chosen is None else f"no job is in the queue {chosen}"
        print_notice(f"{what}: `tokimori queue list` shows the queues that jobs are in")
    print_answer(PauseView.made(paused), sentence(paused))


@queue.command()
@click.argument("name", required=False)
@_EVERYTHING
def resume(name: str | None, everything: bool) -> None:
    """Resume a queue, or --all: its runs start again. --all does not resume queues that are paused by name."""
    from tokimori.model.lanes import EVERYTHING
    from tokimori.service.reasons import reason_text
    from tokimori.service.why.stops import queue_paused

    chosen = _chosen(name, everything=everything)

    async def act(service: "Service") -> "tuple[Pause | None, Sequence[Pause]]":
        return await service.queues.resume(chosen), await service.queues.pauses()

    was, left = in_service(act)
    what = "everything" if chosen is None else f"queue {chosen}"
    still = [pause for pause in left if chosen is None or pause.queue in (EVERYTHING, chosen)]
    if options().as_json:
        paused = ["*" if pause.queue == EVERYTHING else pause.queue for pause in still]
        print_json({"queue": "*" if chosen is None else chosen, "resumed": was is not None, "still_paused": paused})
        return
    print_lines(f"resumed {what}" if was is not None else f"{what} was not paused")
    for pause in still:
        print_notice(reason_text(queue_paused(pause)))


def _chosen(name: str | None, *, everything: bool) -> str | None:
    """Return the queue; None means everything. Raises `InvalidInput`."""
    if (name is None) != everything:
        raise InvalidInput("name: say which queue, or --all", field="name", value=name, allowed="one of NAME, --all")
    return name
