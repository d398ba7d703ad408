"""Sets the person's language. Imported before Typer, which then takes its own texts from this catalogue too."""

from __future__ import annotations

import gettext
import os
from pathlib import Path

from culvert_proto.language import Words, list_preferred, use

_ = Words(Path(__file__).parents[1] / "locale")

use(list_preferred(os.environ))
# Typer and argparse use gettext's global catalogue, which would have to be a compiled file.
gettext.gettext = _
