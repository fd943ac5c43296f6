import unittest

from mean import mean


class MeanTest(unittest.TestCase):
    def test_mean(self):
        self.assertEqual(mean([2, 4, 6]), 4)

    def test_one(self):
        self.assertEqual(mean([3]), 3)
