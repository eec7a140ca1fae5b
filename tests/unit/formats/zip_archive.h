// Zip archives as bytes, for tests.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <zlib.h>

#include "core/base/bytes.h"

namespace accel {

/// `text` as a bare deflate stream.
inline std::string deflated(const std::string& text) {
  z_stream stream = {};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

/// An archive of files by name, deflated or stored.
inline std::string zip_archive(const std::vector<std::pair<std::string, std::string>>& files,
                               bool pack) {
  std::string out, listing;
  for (const auto& [name, text] : files) {
    const std::string data = pack ? deflated(text) : text;
    std::string facts;  // what both headers say
    put_little<uint16_t>(facts, 20);
    put_little<uint16_t>(facts, 0);
    put_little<uint16_t>(facts, pack ? 8 : 0);
    put_little<uint32_t>(facts, 0);
    put_little(facts, static_cast<uint32_t>(
                          crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size())));
    put_little(facts, static_cast<uint32_t>(data.size()));
    put_little(facts, static_cast<uint32_t>(text.size()));
    put_little(facts, static_cast<uint16_t>(name.size()));
    put_little<uint16_t>(facts, 0);
    listing.append("PK\1\2\x14").append(1, '\0').append(facts).append(10, '\0');
    put_little(listing, static_cast<uint32_t>(out.size()));
    listing += name;
    out.append("PK\3\4").append(facts).append(name).append(data);
  }
  const size_t start = out.size();
  out.append(listing).append("PK\5\6").append(4, '\0');
  put_little(out, static_cast<uint16_t>(files.size()));
  put_little(out, static_cast<uint16_t>(files.size()));
  put_little(out, static_cast<uint32_t>(listing.size()));
  put_little(out, static_cast<uint32_t>(start));
  put_little<uint16_t>(out, 0);
  return out;
}

/// `archive` with a comment at its end.
inline std::string with_zip_comment(std::string archive, const std::string& comment) {
  archive.resize(archive.size() - 2);
  put_little(archive, static_cast<uint16_t>(comment.size()));
  return archive + comment;
}

}  // namespace accel
