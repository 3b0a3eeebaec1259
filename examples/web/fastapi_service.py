"""FastAPI: the functions run within the service, as long as its lifespan lasts.

uvicorn fastapi_service:service --workers 3
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse
from jobs import app, deliver

import tokimori


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Run functions. At the end what runs has the time that `node.stop_grace` says."""
    async with app.running(concurrency=4):
        yield


service = FastAPI(lifespan=lifespan)


@service.exception_handler(tokimori.TokimoriError)
async def refuse(_: Request, error: tokimori.TokimoriError) -> JSONResponse:
    """Answer with the status that each error has, such as 404 for a run that is not there."""
    return JSONResponse({"detail": error.message}, error.status)


async def known_run(run: str) -> tokimori.Handle[str]:
    """Return a handle of the run in the path: a dependency."""
    return await deliver.handle(run).arefresh()


@service.post("/orders/{order}")
async def take(order: int, seconds: float = 0.0) -> dict[str, str]:
    """Take an order: the same one twice is one run."""
    handle = await deliver.asked(key=f"order-{order}").aenqueue(order, seconds)
    return {"run": handle.id}


@service.get("/runs/{run}")
async def look(handle: Annotated[tokimori.Handle[str], Depends(known_run)]) -> dict[str, object]:
    """Wait for the end of a run."""
    return {"result": await handle.aresult(timeout=60)}
