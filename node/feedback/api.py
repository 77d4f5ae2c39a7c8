"""POST /api/v1/feedback (SPEC 4.7)."""

from contextlib import AsyncExitStack

from node.feedback.model import NewFeedback, ReceivedFeedback
from node.feedback.service import Feedback
from node.store import ids
from node.web.http import Request, Response, json_response
from node.web.idempotency import idempotency_key
from node.web.json import read_json
from node.web.limits import Limiter
from node.web.route import Operation, Route, routes_of


class FeedbackApi:
    """Feedback over HTTP."""

    def __init__(self, feedback: Feedback, limiter: Limiter) -> None:
        self._feedback = feedback
        self._limiter = limiter

    @Operation(
        "Send a report to the operators of the node",
        body=NewFeedback,
        answers=ReceivedFeedback,
        errors=("language.not_english", "idempotency.conflict"),
        limit="feedback",
    )
    async def post_feedback(self, request: Request) -> Response:
        async with AsyncExitStack() as stack:
            # The permit is exited as by `async with` but not entered. Entering would refuse a client over the limit,
            # and a report that is repeated with its Idempotency-Key is always answered. Only reports that are kept
            # count.
            permit = self._limiter.permit(request, "feedback", refusals=False)
            stack.push_async_exit(permit)
            new = await read_json(request, NewFeedback)
            body = await request.body()
            idempotency = idempotency_key(request, "feedback", body, home=ids.home_of(request.client))
            await permit.charge("feedback", len(body), idempotency)
            received, replayed = await self._feedback.add(permit, new, idempotency)
            if replayed:
                await permit.replay()
        return json_response(received)

    def routes(self) -> tuple[Route, ...]:
        """Return the routes of SPEC 4.7."""
        return routes_of(
            "feedback",
            ("POST", "/api/v1/feedback", self.post_feedback),
        )
