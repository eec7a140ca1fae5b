// Shared libraries loaded at run time, for dependencies that only some runs need.
#pragma once

#include <string>

namespace accel {

/// Never unloaded: its functions stay valid until the process ends.
class SharedLibrary {
 public:
  /// Whether libraries loaded later resolve their symbols against this one (RTLD_GLOBAL).
  enum class Symbols { kLocal, kGlobal };

  /// Loads `name`: a path, or a file name for the loader's search path.
  explicit SharedLibrary(const std::string& name, Symbols symbols = Symbols::kLocal);

  explicit operator bool() const { return handle_ != nullptr; }
  /// The loader's message for the failed load or the last failed find().
  const std::string& error() const { return error_; }

  /// Sets `function` to the symbol's address; false and null when there is none.
  template <class Function>
  bool find(const char* name, Function*& function) {
    function = reinterpret_cast<Function*>(address_of(name));
    return function != nullptr;
  }

 private:
  void* address_of(const char* name);

  void* handle_;
  std::string error_;
};

}  // namespace accel
