"""A small client of GitHub's REST API, made of the standard library alone.

Sources: "REST API endpoints for check runs", "REST API endpoints for issue comments", "REST API endpoints
for pull requests", "Using pagination in the REST API" (GitHub Docs).
"""

from __future__ import annotations

import json
import os
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any

from ci_common import CiError, variable

_LIMIT_S = 30
_MAX_PAGES = 50
_HINTS = {
    401: "the token is missing or has ended: pass GITHUB_TOKEN: ${{ github.token }} to the step",
    403: "the job needs `permissions:` checks: write and pull-requests: write, and a token of a fork's event never has them",
    404: "the token does not see the repository, or the commit or pull request is gone",
    422: "GitHub did not take the values; a check run needs a commit that the repository has",
}


class Api:
    """Requests for one repository. Every failure is a CiError that names request, status and GitHub's own words."""

    def __init__(self) -> None:
        """Take address, repository and token from the variables that a workflow has."""
        self._root = os.environ.get("GITHUB_API_URL") or "https://api.github.com"
        self._token = variable("GITHUB_TOKEN")
        self.repository = variable("GITHUB_REPOSITORY")
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", self.repository):
            raise CiError(f"GITHUB_REPOSITORY {self.repository!r} is not owner/name")

    def get(self, path: str, **query: str) -> Any:
        """The JSON at ``path`` below the repository."""
        return self._request("GET", path, query=query)

    def post(self, path: str, data: dict[str, Any]) -> Any:
        """Create something."""
        return self._request("POST", path, data)

    def patch(self, path: str, data: dict[str, Any]) -> Any:
        """Change something."""
        return self._request("PATCH", path, data)

    def pages(self, path: str, **query: str) -> Iterator[Any]:
        """Every item of a list, page by page."""
        for page in range(1, _MAX_PAGES + 1):
            items = self.get(path, per_page="100", page=str(page), **query)
            yield from items
            if len(items) < 100:
                return

    def _request(self, method: str, path: str, data: Any = None, query: dict[str, str] | None = None) -> Any:
        where = f"/repos/{self.repository}/{path}"
        address = self._root + where + (f"?{urllib.parse.urlencode(query)}" if query else "")
        request = urllib.request.Request(
            address,
            method=method,
            data=None if data is None else json.dumps(data).encode(),
            headers={
                "Accept": "application/vnd.github+json",
                "Authorization": f"Bearer {self._token}",
                "Content-Type": "application/json",
                "User-Agent": "kernel-gates",
                "X-GitHub-Api-Version": "2022-11-28",
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=_LIMIT_S) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise CiError(
                f"GitHub answered {error.code} to {method} {where}: {_words(error)}", _HINTS.get(error.code, "try again")
            ) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise CiError(f"no answer from GitHub to {method} {where}: {reason}", "try again") from None


def _words(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read())["message"])[:300]
    except (OSError, ValueError, KeyError, TypeError):
        return error.reason or "no message"
