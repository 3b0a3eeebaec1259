"""Starlette: the functions run within the service, as long as its lifespan lasts.

uvicorn starlette_service:service
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from jobs import app, deliver
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import tokimori


@asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[None]:
    """Run functions. At the end what runs has the time that `node.stop_grace` says."""
    async with app.running(concurrency=4):
        yield


async def take(request: Request) -> JSONResponse:
    """Take an order: the same one twice is one run."""
    order, seconds = int(request.path_params["order"]), float(request.query_params.get("seconds", 0))
    handle = await deliver.asked(key=f"order-{order}").aenqueue(order, seconds)
    return JSONResponse({"run": handle.id})


async def look(request: Request) -> JSONResponse:
    """Wait for the end of a run."""
    return JSONResponse({"result": await deliver.handle(request.path_params["run"]).aresult(timeout=60)})


async def refuse(_: Request, error: Exception) -> JSONResponse:
    """Answer with the status that each error has, such as 404 for a run that is not there."""
    assert isinstance(error, tokimori.TokimoriError)
    return JSONResponse({"detail": error.message}, error.status)


service = Starlette(
    lifespan=lifespan,
    exception_handlers={tokimori.TokimoriError: refuse},
    routes=[Route("/orders/{order:int}", take, methods=["POST"]), Route("/runs/{run}", look)],
)
