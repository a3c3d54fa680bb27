"""Error classes: one for each of the broker's codes, and one for each condition.

Users import them from ``kafkaguard.errors``, which has the classes of other rooms too.
"""

from __future__ import annotations

from kafkaguard._common.public import public
from kafkaguard._errors import base, generated, special
from kafkaguard._errors.base import *  # noqa: F403 - the families
from kafkaguard._errors.generated import *  # noqa: F403 - one class a code
from kafkaguard._errors.made import dual, for_code, for_name
from kafkaguard._errors.special import *  # noqa: F403 - one class a condition

__all__ = [  # noqa: PLE0604 - the lists of the files
    *base.__all__,
    *generated.__all__,
    *special.__all__,
    "dual",
    "for_code",
    "for_name",
]
for _name in __all__:
    public("kafkaguard.errors")(globals()[_name])
