#pragma once
namespace shop { class Cart { public: void add(int item); }; }
