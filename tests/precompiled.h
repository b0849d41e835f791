// What is precompiled for tests: see common/precompiled.h.
#ifndef BOURSE_TESTS_PRECOMPILED_H_
#define BOURSE_TESTS_PRECOMPILED_H_

#include <gtest/gtest.h>

#include "common/precompiled.h"

#endif  // BOURSE_TESTS_PRECOMPILED_H_
