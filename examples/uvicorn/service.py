"""A translation service on CTranslate2, as an ASGI application made by a factory.

    MODEL=/srv/models/en-de uvicorn --factory service:create_app --workers 2
    MODEL=/srv/models/en-de gunicorn -c gunicorn.conf.py 'service:create_app()'

POST / takes {"tokens": ["▁Hello", ...]} and returns the tokens of the translation; GET / says on
which device this worker runs, and why.
"""

import asyncio
import json
import logging
import os

import gpumend

# Before the first import of what uses CUDA. Each worker process runs these lines itself, since
# uvicorn starts workers as new processes, and gunicorn forks them before the application is made.
for problem in gpumend.preload().problems():
    logging.getLogger("uvicorn.error").warning("gpumend: %s", problem)

import ctranslate2  # noqa: E402

BODY_BYTES_MAX = 1 << 20


class Model:
    """The model on the device that works here. Every worker has its own copy in memory."""

    def __init__(self, folder):
        size = os.path.getsize(os.path.join(folder, "model.bin"))
        # Weights, and as much again for what a batch needs.
        self.choice = choice = gpumend.choose(app="ctranslate2", memory_gib=max(2 * size / 2**30, 0.01))
        if choice.device is None:
            raise RuntimeError(choice.reason)
        os.environ.update(choice.exports)  # read at the first use of the device, which comes now
        self.translator = ctranslate2.Translator(
            folder, device="cpu" if choice.device == "cpu" else "cuda",  # also ROCm's name there
            device_index=choice.index or 0, compute_type=choice.compute_type or "default",
            intra_threads=choice.threads or 0)

    def translate(self, tokens):
        return self.translator.translate_batch([tokens], max_decoding_length=256)[0].hypotheses[0]

    def state(self):
        return {"pid": os.getpid(), "device": self.translator.device, "reason": self.choice.reason,
                "compute_type": self.translator.compute_type}


async def body_of(receive):
    """The request's body; None: it is too long."""
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > BODY_BYTES_MAX:
            return None
        if not message.get("more_body"):
            return body


async def answer_to(model, scope, receive):
    """Status and document."""
    if scope["method"] == "GET":
        return 200, model.state()
    body = await body_of(receive)
    if body is None:
        return 413, {"error": "the request is too long"}
    try:
        tokens = json.loads(body)["tokens"]
    except (ValueError, KeyError, TypeError):
        tokens = None
    if not isinstance(tokens, list) or not all(isinstance(t, str) for t in tokens):
        return 400, {"error": "tokens: a list of texts is expected"}
    # In a thread, so that the worker goes on answering: the library releases the interpreter's lock.
    return 200, {"tokens": await asyncio.to_thread(model.translate, tokens)}


def create_app():
    model = Model(os.environ["MODEL"])

    async def application(scope, receive, send):
        if scope["type"] == "lifespan":
            while (await receive())["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        if scope["type"] != "http":
            raise ValueError(scope["type"])
        status, document = await answer_to(model, scope, receive)
        await send({"type": "http.response.start", "status": status,
                    "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": json.dumps(document).encode()})

    return application
