"""Pages whose blocks are written from files: the text between `<!-- NAME: begin -->` and `<!-- NAME: end -->`."""

import re
import sys


def with_block(path, text, name, content):
    """The text of `path` with that block's content in place of what it had."""
    pattern = re.compile(f"(<!-- {name}: begin -->\n).*?(<!-- {name}: end -->)", re.S)
    if not pattern.search(text):
        sys.exit(f"{path} has no block '{name}'")
    return pattern.sub(lambda match: match[1] + content + "\n" + match[2], text)


def settle(files, check, source, script):
    """Writes {path: text} where that changes it; with `check`, ends the script instead."""
    for path, text in files.items():
        if path.exists() and path.read_text() == text:
            continue
        if check:
            sys.exit(f"{path} does not say what {source} holds: run scripts/{script}")
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
