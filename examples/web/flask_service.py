"""Flask, under gunicorn, whose workers run the functions, too: see `gunicorn.conf.py`.

gunicorn flask_service:service --workers 2 --threads 4 [--preload]
"""

from flask import Flask, request
from jobs import app, deliver

service = Flask(__name__)


@service.post("/orders/<int:order>")
def take(order: int) -> dict[str, str]:
    """Take an order: the same one twice is one run."""
    handle = deliver.asked(key=f"order-{order}").enqueue(order, float(request.args.get("seconds", 0)))
    return {"run": handle.id}


@service.get("/runs/<run>")
def look(run: str) -> dict[str, object]:
    """Wait for the end of a run."""
    return {"result": app.handle(run).result(timeout=60)}
