"""A JDBC URL, with user and password kept out of all that is shown."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

USER_VARIABLE = "CROSSROADS_JDBC_USER"
PASSWORD_VARIABLE = "CROSSROADS_JDBC_PASSWORD"
# user:password@ behind // as MySQL has it, user/password@ as Oracle has it
_LOGIN = re.compile(r"(?<=//)[^/@]*@|(?<=:)[^:@/]+/[^@/]*@")


@dataclass(frozen=True)
class JdbcAddress:
    """Where and as whom; the environment speaks where the URL is silent."""

    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    driver: str | None = None  # the class, where the URL alone does not find it

    @classmethod
    def of(
        cls, url: str, *, driver: str | None = None, environ: Mapping[str, str] = os.environ
    ) -> JdbcAddress:
        """Takes `user` and `password` out of the part behind `?`; the rest is the driver's."""
        base, _, query = url.partition("?")
        own = {"user": environ.get(USER_VARIABLE), "password": environ.get(PASSWORD_VARIABLE)}
        others = []
        for setting in filter(None, query.split("&")):
            name, _, value = setting.partition("=")
            if name in own:
                own[name] = unquote(value)
            else:
                others.append(setting)
        return cls("?".join(filter(None, [base, "&".join(others)])), driver=driver, **own)

    @property
    def shown(self) -> str:
        """For messages: settings may hold secrets."""
        return _LOGIN.sub("", re.split(r"[?;]", self.url, maxsplit=1)[0])

    @property
    def properties(self) -> dict[str, str]:
        given = {"user": self.user, "password": self.password, "driver": self.driver}
        return {name: value for name, value in given.items() if value}

    def hidden(self, text: str) -> str:
        """What a driver says may quote the URL, or worse."""
        text = text.replace(self.url, self.shown)
        return text.replace(self.password, "…") if self.password else text
