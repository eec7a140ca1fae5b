#include "core/base/curl_library.h"

#include "core/base/error.h"
#include "core/base/shared_library.h"
#include "core/base/text.h"

namespace accel {
namespace {

template <class Function>
void find_curl_function(SharedLibrary& library, const char* name, Function*& out) {
  if (library.find(name, out)) return;
  throw IoError(text("libcurl has no function '{}': {}", name, library.error()),
                "install libcurl 7.68 or later (Debian, Ubuntu: libcurl4)");
}

}  // namespace

CurlLibrary load_curl(const char* file, const char* user, const char* alternative) {
  SharedLibrary library(file);
  if (!library) {
    throw IoError(text("{} needs libcurl, which cannot be loaded: {}", user, library.error()),
                  text("install libcurl (Debian, Ubuntu: libcurl4), or {}", alternative));
  }
  CurlLibrary curl;
  find_curl_function(library, "curl_global_init", curl.global_init);
  find_curl_function(library, "curl_easy_init", curl.easy_init);
  find_curl_function(library, "curl_easy_setopt", curl.easy_setopt);
  find_curl_function(library, "curl_easy_getinfo", curl.easy_getinfo);
  find_curl_function(library, "curl_easy_perform", curl.easy_perform);
  find_curl_function(library, "curl_easy_strerror", curl.easy_strerror);
  find_curl_function(library, "curl_easy_reset", curl.easy_reset);
  find_curl_function(library, "curl_easy_cleanup", curl.easy_cleanup);
  find_curl_function(library, "curl_slist_append", curl.slist_append);
  find_curl_function(library, "curl_slist_free_all", curl.slist_free_all);
  find_curl_function(library, "curl_multi_init", curl.multi_init);
  find_curl_function(library, "curl_multi_cleanup", curl.multi_cleanup);
  find_curl_function(library, "curl_multi_add_handle", curl.multi_add_handle);
  find_curl_function(library, "curl_multi_remove_handle", curl.multi_remove_handle);
  find_curl_function(library, "curl_multi_perform", curl.multi_perform);
  find_curl_function(library, "curl_multi_poll", curl.multi_poll);
  find_curl_function(library, "curl_multi_wakeup", curl.multi_wakeup);
  find_curl_function(library, "curl_multi_info_read", curl.multi_info_read);
  if (const CURLcode code = curl.global_init(CURL_GLOBAL_ALL); code != CURLE_OK) {
    throw IoError(text("libcurl cannot be initialized: {}", curl.easy_strerror(code)));
  }
  return curl;
}

const CurlLibrary& curl_library(const char* user, const char* alternative) {
  static const CurlLibrary loaded = load_curl("libcurl.so.4", user, alternative);
  return loaded;
}

}  // namespace accel
