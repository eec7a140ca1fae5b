// libcurl, loaded at first use: it depends on thirty libraries that other runs do not need.
#pragma once

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

namespace accel {

/// The functions in use, by name.
struct CurlLibrary {
  decltype(curl_global_init)* global_init;
  decltype(curl_easy_init)* easy_init;
  decltype(curl_easy_setopt)* easy_setopt;
  decltype(curl_easy_getinfo)* easy_getinfo;
  decltype(curl_easy_perform)* easy_perform;
  decltype(curl_easy_strerror)* easy_strerror;
  decltype(curl_easy_reset)* easy_reset;
  decltype(curl_easy_cleanup)* easy_cleanup;
  decltype(curl_slist_append)* slist_append;
  decltype(curl_slist_free_all)* slist_free_all;
  decltype(curl_multi_init)* multi_init;
  decltype(curl_multi_cleanup)* multi_cleanup;
  decltype(curl_multi_add_handle)* multi_add_handle;
  decltype(curl_multi_remove_handle)* multi_remove_handle;
  decltype(curl_multi_perform)* multi_perform;
  decltype(curl_multi_poll)* multi_poll;
  decltype(curl_multi_wakeup)* multi_wakeup;
  decltype(curl_multi_info_read)* multi_info_read;
};

/// Loads the library `file`. Without it throws an IoError that names its `user` and proposes an
/// `alternative`.
CurlLibrary load_curl(const char* file, const char* user, const char* alternative);

/// Loads libcurl once.
const CurlLibrary& curl_library(const char* user, const char* alternative);

}  // namespace accel
