"""A thread as a `Session` of the OpenAI Agents SDK.

    session = NoveloSession("atendimento-4471", novelo.open("sqlite:///chat.db"))
    result = await Runner.run(agent, "E se eu tiver pago com Pix?", session=session)

Items are stored as messages: those of one reply that belong together (a thought and the call it led to) are one
message, so a limit never parts them, nor a call from its output. What is popped is hidden and stays in the transcript;
`clear_session` erases. The class has what the SDK's protocol asks for and imports nothing of it.
"""

from __future__ import annotations

from typing import Any

from novelo.aio import AsyncMemory, threaded
from novelo.errors import InvalidSpec
from novelo.formats.responses import from_responses, to_responses
from novelo.memory import Memory
from novelo.messages import Message
from novelo.stores.base import StoredEntry

PAGE = 50  # messages read at a time


class NoveloSession:
    """The items of a thread; with a policy, the context that it makes of them."""

    def __init__(
        self,
        session_id: str,
        memory: Memory | AsyncMemory,
        *,
        owner: str = "",
        policy: Any = None,
        session_settings: Any = None,
    ) -> None:
        """Read nothing yet.

        Args:
            session_id: the thread's id.
            memory: where the thread is.
            owner: whose it is.
            policy: what `get_items` gives where no limit is asked for; None is all that is not hidden.
            session_settings: the SDK's settings; their `limit` holds where `get_items` is given none.
        """
        self.session_id, self.session_settings = session_id, session_settings
        found: Memory = memory._inner if isinstance(memory, AsyncMemory) else memory
        self.thread = found.thread(session_id, owner)
        self._policy = policy

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """The newest items, oldest first.

        Args:
            limit: at most so many; a thought, its call and the call's output come together or not at all.
        """
        if limit is None:
            told = self.session_settings
            limit = told.get("limit") if isinstance(told, dict) else getattr(told, "limit", None)
        if limit is not None and limit < 0:
            raise InvalidSpec(f"limit={limit}: expected 0 or more")
        return await threaded(self._items, limit)

    def _items(self, limit: int | None) -> list[Any]:
        if limit is None:
            if self._policy is not None:
                return list(self.thread.context(policy=self._policy).messages("responses"))
            return to_responses([e.message for e in self.thread.messages(hidden=False)])
        kept: list[Any] = []
        for group in self._newest_groups():
            items = to_responses(group)
            if len(kept) + len(items) > limit:
                break
            kept = items + kept
        return kept

    def _newest_groups(self) -> Any:
        """Messages that stand or fall together, the newest first: a call's with its results, a question alone."""
        group: list[Message] = []
        at: int | None = None
        while True:
            page = self.thread.messages(after=at, limit=PAGE, newest_first=True, hidden=False)
            if not page:
                break
            for stored in page:
                message = stored.message
                # Results wait for their call, and what follows thoughts alone waits for them.
                if group and not _opens(group[0], message):
                    yield group
                    group = []
                group = [message, *group]
            at = page[-1].position
        if group:
            yield group

    async def add_items(self, items: list[Any]) -> None:
        """Append items, as the Responses API has them."""
        if items:
            await threaded(self._add, items)

    def _add(self, items: list[Any]) -> None:
        self.thread.store_messages(from_responses(items))

    async def pop_item(self) -> Any:
        """Take the newest item away, and give it; None if there is none. The transcript keeps it, hidden."""
        return await threaded(self._pop)

    def _pop(self) -> Any:
        newest: StoredEntry | None = next(iter(self.thread.messages(limit=1, newest_first=True, hidden=False)), None)
        if newest is None:
            return None
        items = to_responses([newest.message])
        if len(items) > 1:
            self.thread.store_messages(from_responses(items[:-1]), hide_from=newest.position)
        else:
            self.thread.hide(newest.position)
        return items[-1] if items else None

    async def clear_session(self) -> None:
        """Erase the thread for good."""
        await threaded(self._clear)

    def _clear(self) -> None:
        if self.thread.row is not None:
            self.thread.erase()


def _opens(later: Message, earlier: Message) -> bool:
    """Whether a message belongs to the one after it: a call to its result, thoughts to what they led to."""
    if later.role == "tool":
        return earlier.role in ("assistant", "tool")
    return earlier.role == "assistant" == later.role and not earlier.text.strip() and not earlier.tool_calls
