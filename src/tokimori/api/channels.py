"""The paths under `/api/v2/topics`: messages of programs to programs."""

from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response

from tokimori.api.answers import answer, page_of
from tokimori.api.operation import Operation, Routes
from tokimori.model.stream import LARGEST_NUMBER
from tokimori.service.channels import LONGEST_WAIT, MOST_READ, MOST_TOPICS
from tokimori.service.views.channels import Channel, FoundMessages, Message, Subscriber

Number = Annotated[int, Meta(ge=0, le=LARGEST_NUMBER)]


class ChannelQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Topics by name, from the first one behind `after`."""

    after: str | None = None
    limit: Annotated[int, Meta(ge=1, le=MOST_TOPICS)] = MOST_TOPICS


class MessageQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Query of messages: those behind the number `after`; else those that the subscriber `name` has not acknowledged.

    Without both those to come. `wait`: seconds in which the answer waits for the first one.
    """

    after: Number | None = None
    name: str | None = None
    wait: Annotated[float, Meta(ge=0, le=LONGEST_WAIT)] = 0.0
    limit: Annotated[int, Meta(ge=1, le=MOST_READ)] = MOST_READ


class PublishRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message: `data` is any JSON, at most 64 KiB. A program that publishes it again gives the same `key`."""

    data: Any
    key: str | None = None


class AcknowledgeRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The subscriber has done with all messages up to this number."""

    number: Number


class SubscriberForgotten(Struct, frozen=True, kw_only=True):
    """The subscriber that was deleted."""

    topic: str
    name: str
    forgotten: bool


class ChannelRoutes(Routes):
    """The part of the API for channels."""

    def operations(self) -> Sequence[Operation]:
        """Return the operations of this part."""
        messages = "/api/v2/topics/{topic}/messages"
        subscriber = "/api/v2/topics/{topic}/subscribers/{name}"
        published = {"data": {"order": 17, "state": "paid"}}
        return [
            Operation("channel_list", "GET", "/api/v2/topics", self.list, list[Channel]),
            Operation("channel_read", "GET", messages, self.read, FoundMessages, asked={"name": "billing", "wait": 20}),
            Operation("channel_publish", "POST", messages, self.publish, Message, status=201, example=published),
            Operation(
                "channel_acknowledge",
                "POST",
                subscriber,
                self.acknowledge,
                Subscriber,
                example={"number": 1764095402115},
            ),
            Operation("channel_unsubscribe", "DELETE", subscriber, self.unsubscribe, SubscriberForgotten),
        ]

    async def list(self, request: Request, query: ChannelQuery) -> Response:
        """List the topics that have messages, by name, a page at a time."""
        found = await self._service(request).channels.list(query.after, query.limit)
        return page_of(request, found, more=len(found) == query.limit, after=found[-1].topic if found else None)

    async def read(self, request: Request, topic: str, query: MessageQuery) -> Response:
        """Return the messages of a topic in order, at most 50; `after` in the answer is where the next ones begin."""
        channels = self._service(request).channels
        found = await channels.read(topic, query.after, query.name, query.wait, query.limit)
        return answer(FoundMessages.made(found))

    async def publish(self, request: Request, topic: str, body: PublishRequest) -> Response:
        """Publish a message to a topic. It is kept once this is answered, behind all that was published before."""
        message = await self._service(request).channels.publish(topic, body.data, body.key)
        return answer(Message.made(message), 201)

    async def acknowledge(self, request: Request, topic: str, name: str, body: AcknowledgeRequest) -> Response:
        """Acknowledge messages: the subscriber gets those behind them from now on."""
        number = await self._service(request).channels.acknowledge(topic, name, body.number)
        return answer(Subscriber(topic=topic, name=name, number=number))

    async def unsubscribe(self, request: Request, topic: str, name: str) -> Response:
        """Delete a subscriber with its position. An unknown one is no error."""
        await self._service(request).channels.unsubscribe(topic, name)
        return answer(SubscriberForgotten(topic=topic, name=name, forgotten=True))
