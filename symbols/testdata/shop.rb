module Shop
  MAX = 10
  class Cart < Base
    attr_accessor :items, :owner
    LIMIT = 3

    def initialize(items)
      @items = items
    end

    def total(discount: 0)
      local = @items.sum(&:price)
      local - discount
    end

    def self.open(path) = new(path)
    class << self
      def load; end
    end
  end
end

class Shop::Error < StandardError; end
def helper; Shop::Cart.open("x"); end
