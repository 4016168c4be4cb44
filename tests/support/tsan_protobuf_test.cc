// Maps of Protobuf messages lie where Debian's libprotobuf, which is built without ThreadSanitizer,
// looks for them. Under the `tsan` preset its headers would have them elsewhere, if it were not for
// what tandem_dependencies.cmake says. Elsewhere it is a plain test of a map.
#include <google/protobuf/struct.pb.h>
#include <gtest/gtest.h>

#include <string>

namespace tandem {
namespace {

TEST(TsanProtobufTest, TheLibraryAndThisProgramSeeTheSameMap) {
  google::protobuf::Struct sent;
  for (int i = 0; i < 100; ++i) {
    (*sent.mutable_fields())[std::to_string(i)].set_number_value(i);
  }
  google::protobuf::Struct received;
  ASSERT_TRUE(received.ParseFromString(sent.SerializeAsString()));
  ASSERT_EQ(received.fields().size(), 100u);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(received.fields().at(std::to_string(i)).number_value(), i);
  }
}

}  // namespace
}  // namespace tandem
