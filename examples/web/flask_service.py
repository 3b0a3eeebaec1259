"""Flask, under gunicorn, whose workers run the functions, too: see `gunicorn.conf.py`.

gunicorn flask_service:service --workers 2 --threads 4 [--preload]
"""

from flask import Flask, request
from jobs import app, deliver

import tokimori

service = Flask(__name__)


@service.errorhandler(tokimori.TokimoriError)
def refuse(error: tokimori.TokimoriError) -> tuple[dict[str, str], int]:
    """Answer with the status that each error has, such as 404 for a run that is not there."""
    return {"detail": error.message}, error.status


@service.post("/orders/<int:order>")
def take(order: int) -> dict[str, str]:
    """Take an order: the same one twice is one run."""
    handle = deliver.asked(key=f"order-{order}").enqueue(order, float(request.args.get("seconds", 0)))
    return {"run": handle.id}


@service.get("/runs/<run>")
def look(run: str) -> dict[str, object]:
    """Wait for the end of a run."""
    return {"result": app.handle(run).result(timeout=60)}
