"""Channels from a terminal."""

import asyncio

import tokimori
from tests.integration.cli.conftest import Program


async def publish(program: Program, topics: list[str]) -> None:
    """Publish a message to each."""
    async with tokimori.open_async(program.environment["TOKIMORI_STORE"]) as client:
        for topic in topics:
            await client.channels.publish(topic, 1)


def test_a_list_of_topics_says_where_it_goes_on(program: Program) -> None:
    """Two hundred are listed, and a line beside them says how the others are; nothing is said behind the last."""
    topics = [f"t{number:03}" for number in range(201)]
    asyncio.run(publish(program, topics))
    first = program.run("channel", "list", "-o", "ids")
    assert (first.stdout.split(), first.stderr.split("`")[1]) == (topics[:200], "--after t199")
    rest = program.run("channel", "list", "--after", "t199", "-o", "ids")
    assert (rest.stdout.split(), rest.stderr) == (topics[200:], "")
