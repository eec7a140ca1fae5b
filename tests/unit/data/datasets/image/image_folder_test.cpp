// The dataset `image_folder`, on disk and in archives.
#include <algorithm>
#include <filesystem>

#include <gtest/gtest.h>

#include "core/api/dataset.h"
#include "formats/image/image.h"
#include "tests/unit/build_component.h"
#include "tests/unit/formats/real_data.h"
#include "tests/unit/formats/tar_writer.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::image_folder_test {
namespace {

std::string sample_image(const std::string& name) {
  return file_content(std::string(std::getenv("ACCEL_SOURCE_DIR")) + "/tests/unit/formats/golden/" +
                      name);
}

class ImageFolderTest : public testing::Test {
 protected:
  ImageFolderTest() {
    folder_.write("set/train/dog/b.jpg", sample_image("rgb_420.jpg"));
    folder_.write("set/train/cat/a.PNG", sample_image("rgb.png"));
    folder_.write("set/train/cat/deep/c.jpeg", sample_image("grey.jpg"));
    folder_.write("set/train/cat/notes.txt", "ignored");
    folder_.write("set/train/cat/.hidden.jpg", "ignored");
    folder_.write("set/test/dog/b.jpg", sample_image("rgb_444.jpg"));
  }

  std::unique_ptr<Dataset> images(const std::string& path, const std::string& options = "") {
    return build<Dataset>("type: image_folder\npath: " + folder_.path(path) + "\n" + options);
  }

  std::string image_complaint(const std::string& path, const std::string& options = "") {
    return complaint([&] { images(path, options); });
  }

  TempFolder folder_;
};

TEST_F(ImageFolderTest, FoldersAreClasses) {
  const auto data = images("set/train");
  EXPECT_EQ(data->size(), 3);
  const DataShape shape = data->shape();
  EXPECT_EQ(shape.input, (Shape{3, 13, 19}));
  EXPECT_EQ(shape.classes, 2);
  EXPECT_EQ(shape.labels, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(data->sample(0).target.as<int64_t>()[0], 0);
  EXPECT_EQ(data->sample(2).target.as<int64_t>()[0], 1);
}

TEST_F(ImageFolderTest, PixelsArePlanesInTheUnitRange) {
  const Sample sample = images("set", "split: train\n")->sample(0);
  const Array pixels = decode_image(bytes_of(sample_image("rgb.png")), Channels::kRgb, "rgb.png");
  ASSERT_EQ(sample.input.shape(), (Shape{3, 13, 19}));
  for (int64_t c = 0; c < 3; ++c) {
    for (int64_t i = 0; i < 13 * 19; ++i) {
      EXPECT_EQ(sample.input.as<float>()[c * 13 * 19 + i],
                static_cast<float>(pixels.as<uint8_t>()[i * 3 + c]) / 255.0f);
    }
  }
  EXPECT_EQ(images("set/train", "grayscale: true\n")->sample(0).input.shape(), (Shape{1, 13, 19}));
}

TEST_F(ImageFolderTest, AnArchiveIsReadLikeTheFolder) {
  const auto member = [](const std::string& name, const std::string& image) {
    return tar_member(name, sample_image(image));
  };
  const std::string inside =
      member("train/dog/b.jpg", "rgb_420.jpg") + member("train/cat/a.PNG", "rgb.png") +
      member("train/cat/deep/c.jpeg", "grey.jpg") + member("test/dog/b.jpg", "rgb_444.jpg");
  const std::string wrapped =
      member("all/train/dog/b.jpg", "rgb_420.jpg") + member("all/train/cat/a.PNG", "rgb.png") +
      member("all/train/cat/deep/c.jpeg", "grey.jpg") + member("all/test/dog/b.jpg", "rgb_444.jpg");
  folder_.write("plain.tar", inside + tar_end());
  folder_.write("wrapped.tar", wrapped + tar_end());
  const auto on_disk = images("set", "split: train\n");
  for (const char* name : {"plain.tar", "wrapped.tar"}) {
    const auto data = images(name, "split: train\n");
    EXPECT_EQ(data->fingerprint(), on_disk->fingerprint()) << name;
    EXPECT_EQ(data->shape().labels, on_disk->shape().labels) << name;
    for (int64_t i = 0; i < 3; ++i) {
      const Array a = data->sample(i).input;
      const Array b = on_disk->sample(i).input;
      EXPECT_TRUE(std::equal(a.data(), a.data() + a.bytes(), b.data())) << name << " " << i;
    }
  }
}

TEST_F(ImageFolderTest, ImagesOfSeveralSizesHaveNoSizeUntilTheyAreResized) {
  folder_.write("mixed/a/1.png", sample_image("rgb.png"));
  folder_.write("mixed/a/2.png", sample_image("tall.png"));
  EXPECT_EQ(images("mixed")->shape().input, (Shape{3, 0, 0}));
  EXPECT_EQ(images("mixed", "size: [8, 6]\n")->shape().input, (Shape{3, 8, 6}));
  EXPECT_EQ(images("mixed", "size: [8, 6]\n")->sample(1).input.shape(), (Shape{3, 8, 6}));
  EXPECT_EQ(images("mixed", "size: 26\n")->sample(0).input.shape(), (Shape{3, 26, 38}));
}

TEST_F(ImageFolderTest, LabelsCanBeGiven) {
  EXPECT_EQ(images("set/test", "labels: [cat, dog]\n")->sample(0).target.as<int64_t>()[0], 1);
  EXPECT_EQ(image_complaint("set/train", "labels: [dog]\n"),
            "the folder 'cat' of '" + folder_.path("set/train") + "' is not one of 'labels'");
}

TEST_F(ImageFolderTest, WrongLayoutsAreRefused) {
  EXPECT_EQ(image_complaint("set"), "the folders of '" + folder_.path("set") +
                                        "' are splits, not classes\n"
                                        "'split: train' picks one of them");
  EXPECT_EQ(image_complaint("set/train/dog"),
            "the image 'b.jpg' is not in a class folder\n"
            "the layout is CLASS/NAME.jpg");
  EXPECT_EQ(image_complaint("set", "split: dev\n"), "no folder '" + folder_.path("set") + "/dev'");
  EXPECT_EQ(image_complaint("nothing").substr(0, 9), "no file '");
  std::filesystem::create_directories(folder_.path("empty"));
  EXPECT_EQ(image_complaint("empty"), "no JPEG or PNG images in '" + folder_.path("empty") + "'");
  folder_.write("notes.csv", "a,b\n1,2\n");
  EXPECT_EQ(image_complaint("notes.csv"),
            "'" + folder_.path("notes.csv") +
                "' is not an image, a folder of images or a .tar of them\nimages are JPEG and PNG");
  folder_.write("other/cat/a.webp", "RIFF");
  EXPECT_EQ(image_complaint("set/train/dog/b.jpg"),
            "the image 'b.jpg' is not in a class folder\n"
            "the layout is CLASS/NAME.jpg")
      << "not an archive";
  EXPECT_EQ(
      image_complaint("other/cat/a.webp"),
      "'a.webp' is neither a JPEG nor a PNG image\n"
      "convert it, such as by 'mogrify -format png FILE', or move it out of the dataset's folder");
  EXPECT_EQ(
      image_complaint("other"),
      "'cat/a.webp' is neither a JPEG nor a PNG image\n"
      "convert it, such as by 'mogrify -format png FILE', or move it out of the dataset's folder");
}

TEST_F(ImageFolderTest, FoldersThatAreNoClassesAreRefused) {
  for (const char* split : {"Training", "Testing"}) {
    folder_.write(std::string("kaggle/") + split + "/cat/a.jpg", sample_image("rgb_444.jpg"));
  }
  EXPECT_EQ(image_complaint("kaggle"), "the folders of '" + folder_.path("kaggle") +
                                           "' are splits, not classes\n"
                                           "'split: Training' picks one of them");
  EXPECT_EQ(images("kaggle", "split: Testing\n")->shape().classes, 1);
  std::filesystem::create_directories(folder_.path("set/train/bird"));
  EXPECT_EQ(image_complaint("set", "split: train\n"),
            "the class folder 'bird' has no JPEG or PNG images\n"
            "put images into it, or move it out of the dataset's folder");
  folder_.write("set/train/bird/a.JFIF", sample_image("rgb_444.jpg"));
  EXPECT_EQ(images("set", "split: train\n")->shape().classes, 3);
}

TEST_F(ImageFolderTest, ADamagedImageIsNamedWhenItIsAskedFor) {
  const std::string path =
      folder_.write("bad/cat/a.jpg", sample_image("rgb_420.jpg").substr(0, 640));
  const auto data = images("bad");
  EXPECT_EQ(complaint([&] { data->sample(0); }),
            "'" + path + "' is a damaged JPEG: Premature end of JPEG file");
}

TEST_F(ImageFolderTest, TheFingerprintFollowsNamesAndContent) {
  const std::string print = images("set/train")->fingerprint();
  EXPECT_EQ(images("set/train")->fingerprint(), print);
  folder_.write("set/train/dog/b.jpg", sample_image("rgb_422.jpg"));
  const std::string changed = images("set/train")->fingerprint();
  EXPECT_NE(changed, print);
  std::filesystem::rename(folder_.path("set/train/dog/b.jpg"), folder_.path("set/train/dog/z.jpg"));
  EXPECT_NE(images("set/train")->fingerprint(), changed);
}

TEST_F(ImageFolderTest, RealPhotographsAreRead) {
  const std::string path = real_data("cifar10-images.tar");
  if (path.empty()) GTEST_SKIP() << "skipped: the real data is not here";
  const auto data = build<Dataset>("type: image_folder\npath: " + path + "\nsplit: train\n");
  EXPECT_EQ(data->size(), 5000);
  EXPECT_EQ(data->shape().input, (Shape{3, 32, 32}));
  EXPECT_EQ(data->shape().classes, 10);
  EXPECT_EQ(data->shape().labels.front(), "airplane");
  EXPECT_EQ(data->sample(4999).target.as<int64_t>()[0], 9);
}

}  // namespace
}  // namespace accel::image_folder_test
