"""Lets a method be written once for both clients: on a `Relay` it returns its answer, on an `AsyncRelay` it is awaited.

A resource has the operations of one kind. Each method is made from a function that builds one call (`Operation`), from
steps with more than one call (`Procedure`), or from steps that yield values (`Iteration`).
"""

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from functools import update_wrapper
from inspect import signature
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from relay_client.call import Call
from relay_client.carrier import Carrier, Patience
from relay_client.errors import InvalidAnswer, UsageError
from relay_client.steps import Answer, Items, NoAnswer, Steps

P = ParamSpec("P")
T = TypeVar("T")
E = TypeVar("E")


class Sync:
    """Marks a resource whose methods block until they are done."""


class Async:
    """Marks a resource whose methods are awaited."""


M_co = TypeVar("M_co", covariant=True)


class Runner(Protocol):
    """Carries out steps: a `Relay` or an `AsyncRelay`."""

    @property
    def carrier(self) -> Carrier: ...
    @property
    def patience(self) -> Patience: ...
    def run(self, steps: Steps[Any]) -> Any: ...
    def iterate(self, steps: Items[Any]) -> Any: ...


class Resource(Generic[M_co]):
    """Operations of one kind."""

    def __init__(self, relay: Runner) -> None:
        self.relay = relay

    def carry(self, call: Call[T]) -> Steps[T]:
        """Return the steps of a call, for use in a procedure."""
        return self.relay.carrier.carry(call, self.relay.patience)

    def open_stream(self, call: Call[Any], silence: float) -> Steps[Answer]:
        """Return the steps that open a stream, to be followed by `Read`."""
        return self.relay.carrier.answer(call, self.relay.patience, silence)


class _Method:
    """A descriptor. The first use of a method stores it on the resource, so later uses do not need the descriptor."""

    name = ""

    def __set_name__(self, owner: object, name: str) -> None:
        self.name = name

    def _stored_on(self, resource: Resource[Any], method: Any, documented: Any) -> Any:
        resource.__dict__[self.name] = update_wrapper(method, documented)
        return method


class Operation(_Method, Generic[P, T]):
    """A method made from a function that builds its call."""

    def __init__(self, build: Callable[Concatenate[Any, P], Call[T]]) -> None:
        self.build = build
        update_wrapper(self, build)  # pyright: ignore[reportArgumentType]

    def call(self, *args: P.args, **kwargs: P.kwargs) -> Call[T]:
        """Return the call that would be sent.

        Raises UsageError for values that cannot be sent, such as a set, a `datetime`, or text with lone surrogates.
        Wrong parameters raise TypeError, as for any function.
        """
        try:
            return self.build(None, *args, **kwargs)
        except UsageError:
            raise
        except (TypeError, ValueError, RecursionError) as error:
            try:
                signature(self.build).bind(None, *args, **kwargs)
            except TypeError:
                raise error from None  # the original error names the method
            raise UsageError(f"this cannot be sent: {error}") from error

    @overload
    def __get__(self, resource: None, owner: object = None) -> "Operation[P, T]": ...
    @overload
    def __get__(self, resource: Resource[Sync], owner: object = None) -> Callable[P, T]: ...
    @overload
    def __get__(self, resource: Resource[Async], owner: object = None) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, resource: Resource[Any] | None, owner: object = None) -> Any:
        if resource is None:
            return self
        relay = resource.relay

        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return relay.run(relay.carrier.carry(self.call(*args, **kwargs), relay.patience))

        return self._stored_on(resource, method, self.build)


class Procedure(_Method, Generic[P, T]):
    """A method made from steps with more than one call."""

    def __init__(self, steps: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        self.steps = steps

    @overload
    def __get__(self, resource: Resource[Sync], owner: object = None) -> Callable[P, T]: ...
    @overload
    def __get__(self, resource: Resource[Async], owner: object = None) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, resource: Resource[Any], owner: object = None) -> Any:
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return resource.relay.run(_checked(self.steps(resource, *args, **kwargs)))

        return self._stored_on(resource, method, self.steps)


class Iteration(_Method, Generic[P, T]):
    """A method made from steps that yield values, for `for` or `async for`."""

    def __init__(self, steps: Callable[Concatenate[Any, P], Items[T]]) -> None:
        self.steps = steps

    @overload
    def __get__(self, resource: Resource[Sync], owner: object = None) -> Callable[P, Generator[T, None, None]]: ...
    @overload
    def __get__(self, resource: Resource[Async], owner: object = None) -> Callable[P, AsyncGenerator[T, None]]: ...
    def __get__(self, resource: Resource[Any], owner: object = None) -> Any:
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            return resource.relay.iterate(_checked(self.steps(resource, *args, **kwargs)))

        return self._stored_on(resource, method, self.steps)


def _checked(steps: Generator[E, Any, T]) -> Generator[E, Any, T]:
    """Return the same steps, but raise InvalidAnswer for a field that is missing in an answer or has a wrong type."""
    try:
        effect = next(steps)  # an error before the first request is due to an argument
    except StopIteration as end:
        return end.value
    try:
        while True:
            try:
                result = yield effect
            except NoAnswer as lost:
                effect = steps.throw(lost)
            else:
                effect = steps.send(result)
    except StopIteration as end:
        return end.value
    except KeyError as missing:
        raise InvalidAnswer(f"the answer has no {missing}") from missing
    except (TypeError, AttributeError) as odd:
        raise InvalidAnswer(f"the answer does not look like a node's: {odd}") from odd
    finally:
        steps.close()
