#include <vector>
namespace shop {
template <typename T> class Store : public Base {
 public:
  explicit Store(int n) : size_(n) {}
  virtual ~Store();
  T get(int i) const { return items_[i]; }
  void put(T item);
  bool operator==(const Store& o) const;
 private:
  std::vector<T> items_;
  int size_ = 0;
};
template <typename T> void Store<T>::put(T item) { items_.push_back(item); }
using Id = unsigned long;
constexpr int kMax = 10;
enum class Color { Red, Green };
struct Point { int x; int y; Point operator+(const Point& o) const { return o; } };
}  // namespace shop
int shop::Registry::count() { auto local = [](int a) { return a; }; return local(1); }
