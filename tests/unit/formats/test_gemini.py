"""What Gemini is sent: contents of user and model, results under the name of their call, the system prompt apart."""

from novelo.formats import read, write

ASKED = {"role": "user", "content": "weather in Porto and Faro?"}
CALLS = [
    {"id": f"c{i}", "type": "function", "function": {"name": "weather", "arguments": f'{{"city": "{city}"}}'}}
    for i, city in enumerate(("Porto", "Faro"))
]
CALLED = {"role": "assistant", "content": "Let me look.", "tool_calls": CALLS}
RESULTS = [
    {"role": "tool", "tool_call_id": "c0", "content": '{"degrees": 18}'},
    {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
]


def gemini(*messages):
    """Chat dicts as Gemini's body."""
    return write(read(list(messages)), "gemini")


def test_system_messages_are_an_instruction():
    """System texts stand apart, wherever they were; without one there is no field."""
    body = gemini({"role": "system", "content": "a"}, ASKED, {"role": "system", "content": "b"})
    assert body["systemInstruction"] == {"parts": [{"text": "a"}, {"text": "b"}]}
    assert [c["role"] for c in body["contents"]] == ["user"]
    assert "systemInstruction" not in gemini(ASKED)


def test_results_stand_in_one_content_under_the_name_of_their_call():
    """As many responses as calls, in the content right behind, each an object under the name of what was called."""
    contents = gemini(ASKED, CALLED, *RESULTS)["contents"]
    assert [c["role"] for c in contents] == ["user", "model", "user"]
    assert contents[1]["parts"] == [
        {"text": "Let me look."},
        {"functionCall": {"id": "c0", "name": "weather", "args": {"city": "Porto"}}},
        {"functionCall": {"id": "c1", "name": "weather", "args": {"city": "Faro"}}},
    ]
    assert [p["functionResponse"] for p in contents[2]["parts"]] == [
        {"id": "c0", "name": "weather", "response": {"degrees": 18}},
        {"id": "c1", "name": "weather", "response": {"result": "sunny"}},
    ]


def test_a_question_behind_results_is_a_content_of_its_own():
    """Text does not join the responses: Gemini counts the parts of that content against the calls."""
    contents = gemini(ASKED, CALLED, *RESULTS, ASKED)["contents"]
    assert [len(c["parts"]) for c in contents] == [1, 3, 2, 1]


def test_a_failed_result_says_so():
    """An error of a tool stands under `error`."""
    used = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
    failed = {"type": "tool_result", "tool_use_id": "c", "content": "boom", "is_error": True}
    given = [ASKED, {"role": "assistant", "content": [used]}, {"role": "user", "content": [failed]}]
    (response,) = write(read(given), "gemini")["contents"][-1]["parts"]
    assert response["functionResponse"] == {"id": "c", "name": "f", "response": {"error": "boom"}}


def test_media_are_inline_or_addresses():
    """Data goes along with its type, an address as one; thoughts and blank texts stay behind."""
    content = [
        {"type": "text", "text": " "},
        {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,AA=="}},
        {"type": "image_url", "image_url": {"url": "https://example.org/x.png"}},
        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA==", "filename": "a.pdf"}},
    ]
    (said,) = gemini({"role": "user", "content": content})["contents"]
    assert said["parts"] == [
        {"inlineData": {"mimeType": "image/jpeg", "data": "AA=="}},
        {"fileData": {"mimeType": "image/png", "fileUri": "https://example.org/x.png"}},
        {"inlineData": {"mimeType": "audio/wav", "data": "AA=="}},
        {"inlineData": {"mimeType": "application/pdf", "data": "AA=="}},
    ]
    thought = {"role": "assistant", "content": [{"type": "thinking", "thinking": "t"}, {"type": "text", "text": "a"}]}
    assert gemini(thought)["contents"] == [{"role": "model", "parts": [{"text": "a"}]}]


def test_broken_arguments_are_quoted():
    """A call's arguments are an object always; what is none is quoted in one."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a": '}}
    (said,) = gemini({"role": "assistant", "content": None, "tool_calls": [call]})["contents"]
    assert '{"a": ' in said["parts"][0]["functionCall"]["args"].values()


def test_a_signed_thought_goes_back_beside_its_call():
    """What Gemini signed in its OpenAI-shaped answer is given back unchanged."""
    signed = {**CALLS[0], "extra_content": {"google": {"thought_signature": "sig"}}}
    contents = gemini(ASKED, {"role": "assistant", "content": None, "tool_calls": [signed]})["contents"]
    assert contents[1]["parts"][0]["thoughtSignature"] == "sig"
