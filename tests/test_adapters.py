"""The adapter contract, for every library and every model of the tables."""

import pytest

from tests.cases import LIGHTGBM, SKLEARN, XGBOOST, fitted
from tests.contract import AdapterContract


class TestSklearn(AdapterContract):
    @pytest.fixture(params=SKLEARN)
    def case(self, request):
        return fitted("sklearn", request.param)


class TestXGBoost(AdapterContract):
    @pytest.fixture(params=XGBOOST)
    def case(self, request):
        return fitted("xgboost", request.param)


class TestLightGBM(AdapterContract):
    @pytest.fixture(params=LIGHTGBM)
    def case(self, request):
        return fitted("lightgbm", request.param)
