"""`tokimori publish`, `tokimori subscribe`, `tokimori unsubscribe` and `tokimori channel list`."""

import sys
from typing import TYPE_CHECKING

import click

from tokimori.cli.command import Command, Group, options
from tokimori.cli.output import local, print_answer, print_lines, print_notice
from tokimori.cli.session import in_service
from tokimori.cli.table import listing, print_list

if TYPE_CHECKING:
    from tokimori.model.message import Message
    from tokimori.service.channels import FoundMessages
    from tokimori.service.service import Service


channel = Group("channel", help="Channels: list. `publish` and `subscribe` use one.")

_COLUMNS = ("TOPIC",)


@channel.command("list", cls=Command)
@click.option("--after", metavar="TOPIC", help="Only those behind this topic.")
@listing(_COLUMNS)
def list_channels(after: str | None) -> None:
    """List the topics that have messages, by name, at most 200."""
    from tokimori.service.channels import MOST_TOPICS

    found = in_service(lambda service: service.channels.list(after))
    print_list(_COLUMNS, [(each, [(each.topic,)]) for each in found], lambda each: each)
    if len(found) == MOST_TOPICS:
        print_notice(f"There may be more: `--after {found[-1].topic}` lists those behind.")


@click.command(
    "publish",
    cls=Command,
    examples=(
        ("publish orders '{\"order\": 17}'", "to whoever subscribes to orders"),
        ("publish orders -", "what standard input says"),
    ),
)
@click.argument("topic", metavar="TOPIC")
@click.argument("message", metavar="JSON")
@click.option("--key", metavar="TEXT", help="Give the same when it is published again: subscribers receive it.")
def publish(topic: str, message: str, key: str | None) -> None:
    """Publish a message to a topic: JSON, at most 64 KiB; `-` reads it from standard input.

    It is kept when this ends with 0, behind all that was published to the topic before.
    """
    from tokimori.service.views.channels import Message as MessageView

    data = json_in("message", sys.stdin.read() if message == "-" else message)
    found = in_service(lambda service: service.channels.publish(topic, data, key))
    print_answer(MessageView.made(found), f"message {found.number} published to {topic}")


def json_in(field: str, text: str) -> object:
    """Return the value that the text says as JSON. Raises `InvalidInput`."""
    import json

    from tokimori.errors import InvalidInput

    try:
        return json.loads(text)
    except (ValueError, RecursionError) as fault:
        message = f"{field}: it is no JSON: {fault}"
        raise InvalidInput(message, field=field, value=text[:200], allowed="""JSON: a text is '"text"'""") from None


@click.command("unsubscribe", cls=Command)
@click.argument("topic", metavar="TOPIC")
@click.argument("name", metavar="NAME")
def unsubscribe(topic: str, name: str) -> None:
    """Delete a subscriber of a topic with its position. An unknown one is no error."""
    in_service(lambda service: service.channels.unsubscribe(topic, name))
    print_answer({"topic": topic, "name": name, "forgotten": True}, f"subscriber {name} of {topic} forgotten")


@click.command(
    "subscribe",
    cls=Command,
    examples=(
        ("subscribe orders -f", "what is published from now on"),
        ("subscribe orders --name billing", "what billing has not seen yet, once"),
    ),
)
@click.argument("topic", metavar="TOPIC")
@click.option("--name", metavar="NAME", help="As this subscriber: it gets each message once.")
@click.option("--after", type=int, metavar="NUMBER", help="Begin behind the message of this number.")
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until it is stopped.")
def subscribe(topic: str, *, name: str | None, after: int | None, follow: bool) -> None:
    """Print the messages of a topic, each as a line of JSON.

    A new subscriber receives all stored messages. Without --name and -f all stored messages are printed; without
    --name, -f begins with the next message.
    """
    begin = 0 if after is None and name is None and not follow else after
    in_service(lambda service: _print_messages(service, topic, name, begin, follow=follow))


async def _print_messages(service: "Service", topic: str, name: str | None, after: int | None, *, follow: bool) -> None:
    from tokimori.service.channels import FOLLOW_WAIT

    wait = FOLLOW_WAIT if follow else 0.0
    found = await service.channels.read(topic, after, name)
    while True:
        _print(found, service.time_zone)
        if found.messages and name is not None:
            await service.channels.acknowledge(topic, name, found.after)
        if not found.messages and not follow:
            return
        found = await service.channels.read(topic, found.after, None, wait)


def _print(found: "FoundMessages", zone: str) -> None:
    if found.gap:
        print_notice("There is a gap: earlier messages are no longer stored.")
    for message in found.messages:
        _print_line(message, zone)
    sys.stdout.flush()


def _print_line(message: "Message", zone: str) -> None:
    from msgspec import json

    from tokimori.service.views.channels import Message as MessageView

    if options().as_json:
        print_lines(json.encode(MessageView.made(message)).decode())
        return
    by = () if message.by is None else (f"by {message.by}",)
    print_lines("  ".join((str(message.number), local(message.at, zone), *by, json.encode(message.data).decode())))
