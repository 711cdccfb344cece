"""Parses each `az` command of the documents with the argument parser of the Azure CLI. Sends nothing, needs no login.
The parser prints what it refuses.

Run it with the Python that has azure-cli (PyPI). Commands of extensions, which are not part of it, are only counted.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from pathlib import Path

from azure.cli.core import get_default_cli
from azure.cli.core.azclierror import AzCLIError

ROOT = Path(__file__).resolve().parents[3]
# Groups of extensions: https://learn.microsoft.com/cli/azure/azure-cli-extensions-list
EXTENSIONS = {"graph", "maintenance"}


def commands(text: str) -> list[list[str]]:
    """The commands after `$ az` in blocks, and those with options in code spans, split as a shell does."""
    found = [shlex.split(command) for command in re.findall(r"`az ([^`\n]+ -[^`\n]+)`", text)]
    lines = iter(text.splitlines())
    for line in lines:
        if started := re.match(r" *\$ az (.*)", line):
            command = started[1]
            while (words := split(command)) is None:
                command += "\n" + next(lines)
            found.append(words)
    return found


def split(command: str) -> list[str] | None:
    """The words of a command; None if it goes on in the next line. A substitution is one word."""
    if command.endswith("\\"):
        return None
    command = re.sub(r"\$\([^)]*\)", "VALUE", command.replace("\\\n", " "))
    try:
        return shlex.split(command)
    except ValueError:
        return None


def parse(arguments: list[str]) -> str | None:
    """Parses one command; returns what is wrong with it."""
    cli = get_default_cli()
    invocation = cli.invocation_cls(
        cli_ctx=cli,
        parser_cls=cli.parser_cls,
        commands_loader_cls=cli.commands_loader_cls,
        help_cls=cli.help_cls,
    )
    cli.invocation = invocation
    invocation.commands_loader.load_command_table(arguments)
    known = invocation.commands_loader.command_table
    starts = (" ".join(arguments[:length]) for length in range(len(arguments), 0, -1))
    command = next((start for start in starts if start in known), None)
    if command is None:
        return "no such command"
    invocation.data["command_string"] = command
    invocation.commands_loader.command_name = command
    invocation.commands_loader.load_arguments(command)
    invocation.parser.load_command_table(invocation.commands_loader)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            invocation.parser.parse_args(arguments)
    except AzCLIError as error:
        return str(error)
    except SystemExit:
        return "refused"
    return None


def write_settings(folder: str) -> None:
    """The parser reads this file, whose content is a block of the page."""
    page = (ROOT / "docs" / "install.md").read_text()
    (block,) = re.findall(r'```json\n(\{\n *"fileUris".*?)```', page, re.DOTALL)
    Path(folder, "settings.json").write_text(block)


def main() -> int:
    checked = skipped = failed = 0
    folder = tempfile.TemporaryDirectory()
    write_settings(folder.name)
    os.chdir(folder.name)
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for arguments in commands(path.read_text()):
            if arguments[0] in EXTENSIONS:
                skipped += 1
                continue
            checked += 1
            problem = parse(arguments)
            if problem is not None:
                failed += 1
                print(f"{path.name}: {problem}: az {shlex.join(arguments)}", file=sys.stderr)
    folder.cleanup()
    print(f"{checked} commands, {skipped} of extensions not checked")
    # Documents without a command would pass as well.
    return 1 if failed or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
