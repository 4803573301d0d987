#!/usr/bin/env python3
"""Links out of these pages, as mdBook needs them: files that are not in the site are shown in the
repository. mdBook runs it as a preprocessor (`docs/book.toml`)."""

import json
import re
import sys


def rewrite(items, prefix):
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter is None:
            continue
        # Pages of a folder reach the other pages with the first `../`.
        inside = len((chapter["path"] or "").split("/")) - 1
        outward = re.compile(r"\]\((?:\.\./){%d}([^.)][^)]*)\)" % (inside + 1))
        chapter["content"] = outward.sub(rf"]({prefix}\1)", chapter["content"])
        rewrite(chapter["sub_items"], prefix)


def main():
    if sys.argv[1:2] == ["supports"]:
        return
    context, book = json.load(sys.stdin)
    repository = context["config"]["output"]["html"]["git-repository-url"]
    rewrite(book.get("items", book.get("sections", [])), f"{repository}/blob/main/")
    json.dump(book, sys.stdout)


if __name__ == "__main__":
    main()
