// A libcurl whose initialization fails; its other functions are never called.
#define BROKEN(name) \
  __attribute__((visibility("default"))) void name() {}

extern "C" {

__attribute__((visibility("default"))) int curl_global_init(long) {
  return 27;  // CURLE_OUT_OF_MEMORY
}
__attribute__((visibility("default"))) const char* curl_easy_strerror(int code) {
  return code == 27 ? "Out of memory (27)" : "another code";
}

BROKEN(curl_easy_init)
BROKEN(curl_easy_setopt)
BROKEN(curl_easy_getinfo)
BROKEN(curl_easy_perform)
BROKEN(curl_easy_reset)
BROKEN(curl_easy_cleanup)
BROKEN(curl_slist_append)
BROKEN(curl_slist_free_all)
BROKEN(curl_multi_init)
BROKEN(curl_multi_cleanup)
BROKEN(curl_multi_add_handle)
BROKEN(curl_multi_remove_handle)
BROKEN(curl_multi_perform)
BROKEN(curl_multi_poll)
BROKEN(curl_multi_wakeup)
BROKEN(curl_multi_info_read)

}  // extern "C"
