"""The rig's assertions are to be explained in every folder that imports it."""

import pytest

pytest.register_assert_rewrite("gateway_rig")
