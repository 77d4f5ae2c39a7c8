"""POST /api/v1/feedback (SPEC 4.7)."""

from node.common.refusal import Refused
from node.feedback.model import NewFeedback, ReceivedFeedback
from node.feedback.service import Feedback
from node.web.http import Request, Response, json_response
from node.web.idempotency import idempotency_key, mark_replayed
from node.web.json import read_json
from node.web.limits import Limiter
from node.web.route import Route


class FeedbackApi:
    """Feedback over HTTP."""

    def __init__(self, feedback: Feedback, limiter: Limiter) -> None:
        self._feedback = feedback
        self._limiter = limiter

    async def post_feedback(self, request: Request) -> Response:
        """Keep a report for the operators; refused reports do not use up the hour."""
        new = await read_json(request, NewFeedback)
        body = await request.body()
        idempotency = idempotency_key(request, "feedback", body)
        await self._limiter.charge(request, "feedback", len(body))
        received = await self._feedback.add(request.client, self._limiter.of("feedback"), new, idempotency)
        if received.kind == "conflict":
            raise Refused("idempotency.conflict")
        if received.kind == "replayed":
            mark_replayed(request)
        else:
            self._limiter.settle(request, "feedback", received.taken)
        return json_response(ReceivedFeedback("received", received.id))

    def routes(self) -> tuple[Route, ...]:
        """SPEC 4.7."""
        return (
            Route(
                method="POST",
                path="/api/v1/feedback",
                handler=self.post_feedback,
                summary="Report something to the operators",
                tag="feedback",
                body=NewFeedback,
                answers=ReceivedFeedback,
                errors=("language.not_english", "idempotency.conflict"),
                limit="feedback",
            ),
        )
