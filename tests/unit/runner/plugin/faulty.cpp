// A plugin whose initialiser does what the variable ACCEL_TEST_FAULT says.
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace {

struct Faulty {
  Faulty() {
    const char* fault = std::getenv("ACCEL_TEST_FAULT");
    const std::string text = fault ? fault : "";
    if (text == "error") throw std::runtime_error("no luck");
    if (text == "number") throw 5;
    if (text == "abort") std::abort();
    if (text == "exit") std::_Exit(0);
  }
};

const Faulty faulty;

}  // namespace
