"""A plain relay: one model, one route, and a few awaited calls to redis-py."""

# This runs in .venv-bench, whose packages the type checker does not see.
# pyright: basic, reportMissingImports=false

import os
import time
import uuid
from typing import Literal

import redis.asyncio as redis
from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel, ConfigDict

app = FastAPI()
store = redis.Redis(unix_socket_path=os.environ["REDIS_SOCKET"], decode_responses=True)

LIMIT = 100_000  # as high as the node's limit during measurements: counted but never reached


class Message(BaseModel):
    model_config = ConfigDict(extra="allow")

    message: str
    language: Literal["en-US"] = "en-US"
    public: bool = True


class Acknowledgement(BaseModel):
    status: Literal["acknowledged"] = "acknowledged"
    node_id: str = "plain"
    reference_id: str


@app.get("/health")
async def health() -> dict[str, str]:
    return {"status": "ok"}


@app.post("/api/v1/relay")
async def relay(message: Message, request: Request) -> Acknowledgement:
    client = request.client.host if request.client else "?"
    window = f"rate:{client}:{int(time.time()) // 60}"
    count = await store.incr(window)
    if count == 1:
        await store.expire(window, 60)
    if count > LIMIT:
        raise HTTPException(429, "too many requests")
    reference_id = str(uuid.uuid4())
    await store.hset(f"thread:{reference_id}", mapping={"body": message.model_dump_json(), "created_at": time.time()})
    if message.public:
        await store.zadd("threads", {reference_id: time.time()})
    return Acknowledgement(reference_id=reference_id)
