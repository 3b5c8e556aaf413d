"""Known commands against the output that their documentation shows, and the process that runs one (P21, P22)."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any, get_args

import pytest

from relgrade_assets.errors import Refused
from relgrade_assets.io import agent
from relgrade_assets.io.agent import MOST_BYTES, Agents, environment, require_program, version_of
from relgrade_assets.io.presets import PRESETS, NoReply, claude_result, command_of
from relgrade_assets.protocol.design import Run

ROWS = '{"query_id": "q", "chunk_id": "c", "reason": "says so", "grade": 2}'
CLAUDE = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "duration_ms": 2814,
    "duration_api_ms": 2790,
    "num_turns": 1,
    "result": ROWS,
    "session_id": "3f0c2c1e-0000-4000-8000-000000000000",
    "total_cost_usd": 0.0123,
    "usage": {"input_tokens": 900, "output_tokens": 40},
}
"""What `claude -p --output-format json` of Claude Code 2.1 prints, by its documentation: one object."""


# the table


def test_every_preset_of_the_design_is_a_row() -> None:
    kinds = [get_args(kind) for kind in get_args(Run.model_fields["command"].annotation)]
    (names,) = [names for names in kinds if isinstance(names[0], str)]
    assert sorted(names) == sorted(PRESETS)


def test_claude_against_its_documented_output() -> None:
    assert claude_result(json.dumps(CLAUDE) + "\n") == ROWS


@pytest.mark.parametrize(
    "change",
    [
        {"is_error": True},
        {"subtype": "error_max_turns", "is_error": True},
        {"subtype": "error_during_execution"},
        {"result": None},
        {"type": "system"},
    ],
)
def test_claude_that_failed_has_no_reply(change: dict[str, object]) -> None:
    """P20: not even where rows stand in it."""
    with pytest.raises(NoReply):
        claude_result(json.dumps({**CLAUDE, **change}))


@pytest.mark.parametrize("printed", ["", ROWS + "x", "[]", json.dumps([CLAUDE]), "Not logged in", "[" * 99_999])
def test_what_claude_does_not_print_has_no_reply(printed: str) -> None:
    with pytest.raises(NoReply):
        claude_result(printed)


def test_claude_is_run_without_tools_settings_servers_or_a_kept_session() -> None:
    """P22: and by its plan; the model only where it is named."""
    argv = command_of(Run(command="claude", model="some-model")).argv
    assert argv[:4] == ("claude", "-p", "--output-format", "json")
    assert argv[argv.index("--tools") + 1] == ""
    assert argv[argv.index("--setting-sources") + 1] == "local"
    assert {"--no-session-persistence", "--strict-mcp-config"} < set(argv)
    assert argv[-2:] == ("--model", "some-model")
    assert "--model" not in command_of(Run(command="claude")).argv
    assert command_of(Run(command="claude")).keeps == ("CLAUDE_CODE_OAUTH_TOKEN",)


def test_llm_prints_the_reply_alone() -> None:
    command = command_of(Run(command="llm", model="m"))
    assert command.argv == ("llm", "--no-stream", "--no-log", "--model", "m")
    assert command.reply(ROWS + "\n") == ROWS + "\n"


def test_a_list_is_run_as_it_stands() -> None:
    command = command_of(Run(command=("my-agent", "--quiet"), model="noted"))
    assert (command.argv, command.version, command.model) == (
        ("my-agent", "--quiet"),
        ("my-agent", "--version"),
        "noted",
    )


# the process


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


@pytest.fixture
def agents() -> Agents:
    return Agents(environment(os.environ, ()))


def test_keys_and_what_leads_to_the_study_are_taken_out_of_the_environment() -> None:
    """P21: unless the design allows them by name."""
    out = {
        "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "HF_TOKEN",
        "AZURE_OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "MISTRAL_API_KEY", "GITHUB_TOKEN", "PGPASSWORD",
        "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_OAUTH_TOKEN", "DATABASE_URL", "RELGRADE_LEDGER", "RELGRADE_HOME",
        "DAGSTER_HOME", "PWD", "OLDPWD", "MY_SECRET", "openai_api_key",
    }  # fmt: skip
    stay = {"PATH", "HOME", "LANG", "TERM", "TMPDIR", "HTTPS_PROXY", "OLLAMA_HOST", "KEYBOARD"}
    given = dict.fromkeys(out | stay, "x")
    assert set(environment(given, ())) == stay
    assert set(environment(given, ("OPENAI_API_KEY",))) == stay | {"OPENAI_API_KEY"}
    assert "CLAUDE_CODE_OAUTH_TOKEN" in environment(given, command_of(Run(command="claude")).keeps)
    for command in ("claude", "llm", ("my-agent",)):
        allowed = Run.model_validate({"command": command, "allow_environment": ["OPENAI_API_KEY"]})
        assert "OPENAI_API_KEY" in environment(given, command_of(allowed).keeps), command


def test_a_process_gets_the_prompt_an_empty_folder_and_nothing_else(agents: Agents) -> None:
    """P22."""
    code = "import os, sys; print(os.listdir('.'), len(sys.stdin.buffer.read()), os.getsid(0) == os.getpid())"
    ran = agents.run(python(code), b"x" * 1_000_000, timeout=20)
    assert (ran.end, ran.status, ran.printed) == ("ended", 0, b"[] 1000000 True\n")
    code = "import os; print(sorted(os.environ))"
    ran = Agents({"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}).run(python(code), b"", timeout=20)
    assert ran.printed == b"['LC_ALL', 'PATH']\n", "what was taken out stays out"
    first, second = (agents.run(python("import os; print(os.getcwd())"), b"", timeout=20).printed for _ in range(2))
    assert first != second and not Path(first.decode().strip()).exists()


def test_a_prompt_that_is_not_read_is_no_fault(agents: Agents) -> None:
    ran = agents.run(python("print('done')"), b"x" * 1_000_000, timeout=20)
    assert (ran.end, ran.printed) == ("ended", b"done\n")


def test_a_process_that_hangs_is_killed_with_all_it_started(agents: Agents, tmp_path: Path) -> None:
    """P21: the grandchild too, which holds the pipe open."""
    mark = tmp_path / "alive"
    inner = f"import time; time.sleep(1.5); open({str(mark)!r}, 'w')"
    code = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {inner!r}]); time.sleep(20)"
    ran = agents.run(python(code), b"", timeout=0.6)
    assert (ran.end, ran.status) == ("timeout", None) and ran.seconds < 1.4
    time.sleep(1.4)
    assert not mark.exists()


def test_what_an_ended_process_leaves_running_is_not_waited_for(agents: Agents) -> None:
    code = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(20)']); print(1)"
    ran = agents.run(python(code), b"", timeout=10)
    assert (ran.end, ran.status, ran.printed) == ("ended", 0, b"1\n") and ran.seconds < 5


def test_a_flood_is_ended(agents: Agents) -> None:
    ran = agents.run(python("while True: print('x' * 10000)"), b"", timeout=30)
    assert ran.end == "flooded" and len(ran.printed) <= MOST_BYTES


def test_crash_and_errors_are_told(agents: Agents) -> None:
    ran = agents.run(python("import sys; sys.exit('no plan left')"), b"", timeout=20)
    assert (ran.end, ran.status, ran.errors) == ("ended", 1, b"no plan left\n")


def test_one_that_the_system_killed_has_crashed(agents: Agents) -> None:
    """P20: for want of memory, say; nobody stopped it, so it is asked again."""
    ran = agents.run(python("import os; os.kill(os.getpid(), 9)"), b"", timeout=20)
    assert (ran.end, ran.status) == ("ended", -9)


def test_one_that_had_ended_when_all_were_stopped_keeps_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """P23."""
    agents, attend = Agents({}), agent._attend

    def and_then_all_are_stopped(process: Any, prompt: bytes, until: float) -> Any:
        said = attend(process, prompt, until)
        agents.stop()
        return said

    monkeypatch.setattr(agent, "_attend", and_then_all_are_stopped)
    ran = agents.run(python("print('rows')"), b"", timeout=20)
    assert (ran.end, ran.status, ran.printed) == ("ended", 0, b"rows\n")


def test_what_was_printed_last_is_read_where_the_system_does_not_tell_of_the_end(
    agents: Agents, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P23: there it is asked whether the process has ended, and may have printed since its output was looked at."""
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    over = os.WEXITED | os.WNOWAIT
    monkeypatch.setattr(agent, "_is_over", lambda process: os.waitid(os.P_PID, process.pid, over) is not None)
    ran = agents.run(python("import time; time.sleep(0.2); print('x' * 50_000)"), b"", timeout=20)
    assert (ran.end, ran.status, len(ran.printed)) == ("ended", 0, 50_001)


def test_all_are_stopped_at_once(agents: Agents) -> None:
    ended = []
    threads = [
        threading.Thread(
            target=lambda: ended.append(agents.run(python("import time; time.sleep(20)"), b"", timeout=20).end)
        )
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    agents.stop()
    for thread in threads:
        thread.join(5)
    assert ended == ["stopped"] * 3
    assert agents.run(python("print(1)"), b"", timeout=5).end == "stopped", "none is started any more"


def test_version_and_a_missing_program() -> None:
    env = environment(os.environ, ())
    assert version_of((sys.executable, "--version"), env) == f"Python {sys.version.split()[0]}"
    assert version_of((sys.executable, "-c", "print(1); raise SystemExit(1)"), env) == "unknown"
    with pytest.raises(Refused, match="no-such-agent"):
        require_program(("no-such-agent", "-p"), "ann")
    require_program((sys.executable,), "ann", ["json"])
    with pytest.raises(Refused, match=r"no no_such_module(.|\n)*pip install"):
        require_program((sys.executable,), "ann", ["json", "no_such_module"])
