# Speaks like a test runner: one test, which passes once code.txt is fixed.
if grep -q fixed code.txt; then
	echo "1 passed in 0.01s"
else
	echo "FAILED test_code.py::test_code - not fixed"
	echo "1 failed in 0.01s"
	exit 1
fi
